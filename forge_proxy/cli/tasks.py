"""`forge-proxy tasks`: changes of repositories that the daemon makes on branches of their own, and people merge."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from forge_proxy.cli.admin import AsJson, CommandOptions, OwnKey, OwnUrl, inherit_options, list_by_default
from forge_proxy.cli.formatting import show, show_rows
from forge_proxy.cli.run_rows import describe_time
from forge_proxy.cli.task_rows import (
    call_rows,
    describe_task_event,
    failure_rows,
    plan_rows,
    sub_task_rows,
    task_rows,
)
from forge_proxy.client.task_events import is_end_of_work
from forge_proxy.core.errors import ForgeError

_ROUTE = "tasks"

tasks = typer.Typer(
    name="tasks",
    help="Changes of repositories that the daemon plans, writes, checks and commits on a branch; a person merges them.",
)
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task, as 'tasks submit' and 'tasks list' print it.")]
Description = Annotated[str, typer.Argument(metavar="DESCRIPTION", help="What is to be done; - is stdin.")]
Repo = Annotated[Path, typer.Option("--repo", help="The repository. Default: the current folder.")]
Target = Annotated[
    list[str] | None, typer.Option("--file", "-f", metavar="PATH", help="A file to change or create. Repeatable.")
]
Read = Annotated[list[str] | None, typer.Option("--context", metavar="PATH", help="Another file to read. Repeatable.")]
MayWrite = Annotated[
    list[str] | None, typer.Option("--may-write", metavar="PATTERN", help="Further paths, such as src/**. Repeatable.")
]
Base = Annotated[str | None, typer.Option("--base", help="The base branch. Default: the current one.")]
OwnId = Annotated[str | None, typer.Option("--id", help="The id of the task, and of its branch forge/ID.")]
After = Annotated[
    list[str] | None, typer.Option("--after", metavar="ID", help="A task that has to be merged before. Repeatable.")
]
Planned = Annotated[bool, typer.Option("--plan", help="Make a plan with several steps first.")]
Mode = Annotated[
    str, typer.Option("--mode", help="The mode of calls: sync, or batch (each call is a batch of one line).")
]
Domain = Annotated[str, typer.Option("--domain", help="The kind of work, such as documentation.")]
Attempts = Annotated[int, typer.Option("--attempts", help="Attempts of each step.")]


class TaskDidNotSucceed(ForgeError):
    """The watched task halted, failed, or was cancelled or rejected."""


list_by_default(tasks, lambda options: _list(options, 20, None))


def _make_submit_command(then: Callable[[CommandOptions, dict[str, Any]], None]) -> Callable[..., None]:
    """Return a command that submits a task, and then calls `then` with it."""

    def command(
        context: typer.Context, description: Description, repo: Repo = Path(), file: Target = None, read: Read = None,
        may_write: MayWrite = None, base: Base = None, task_id: OwnId = None, after: After = None,
        plan: Planned = False, mode: Mode = "sync", domain: Domain = "code_generation", attempts: Attempts = 2,
        url: OwnUrl = None, key: OwnKey = None, json: AsJson = False,
    ) -> None:  # fmt: skip
        options = inherit_options(context, url, key, json)
        task: dict[str, Any] = {
            "description": sys.stdin.read() if description == "-" else description, "target_files": file or [],
            "context_files": read or [], "may_write": may_write or [], "domain": domain,
        }  # fmt: skip
        body: dict[str, Any] = {
            "task": task if task_id is None else {**task, "task_id": task_id}, "repository": str(repo.resolve()),
            "plan": plan, "mode": mode, "max_attempts": attempts, "after": after or [],
        }  # fmt: skip
        then(options, options.remote.admin("POST", _ROUTE, body if base is None else {**body, "base": base}))

    command.__doc__ = then.__doc__
    return command


def _run(options: CommandOptions, task: dict[str, Any]) -> None:
    """Submit a task and show its progress until its branch can be reviewed. Ctrl-C only ends the display.

    Exit code 0 if the branch can be reviewed, 1 if the task halted or failed.
    """
    if not options.as_json:
        print(task["id"])
    try:
        _watch(options, task["id"])
    except KeyboardInterrupt:
        again = f"'forge-proxy tasks watch {task['id']}' shows it again"
        print(f"\nforge-proxy: the task continues; {again}", file=sys.stderr)
        raise typer.Exit(130) from None


def _submit(options: CommandOptions, task: dict[str, Any]) -> None:
    """Submit a task and print its id; it continues whether or not it is watched."""
    show(task, as_json=True) if options.as_json else print(task["id"])


tasks.command("run")(_make_submit_command(_run))
tasks.command("submit")(_make_submit_command(_submit))


@tasks.command()
def watch(
    context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Print the events of a task and of its sub-tasks until it waits for a person or ends.

    Exit code 1 unless it can be or was merged.
    """
    _watch(inherit_options(context, url, key, json), task_id)


@tasks.command("list")
def list_tasks(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The number of tasks.")] = 20,
    status: Annotated[str | None, typer.Option("--status", help="Only tasks with this status.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """List the tasks, newest first."""
    _list(inherit_options(context, url, key, json), limit, status)


@tasks.command("show")
def show_task(
    context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Show a task: its progress, why attempts have failed, and its result."""
    options = inherit_options(context, url, key, json)
    task = options.remote.admin("GET", _path(task_id))
    if options.as_json:
        show(task, as_json=True)
        return
    show_rows([*task_rows(task), *sub_task_rows(task["sub_tasks"]), *failure_rows(task)])


@tasks.command()
def plan(context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Show the plan of a task."""
    options = inherit_options(context, url, key, json)
    response = options.remote.admin("GET", f"{_path(task_id)}/plan")
    if options.as_json:
        show(response, as_json=True)
        return
    if response["plan"] is None:
        print("no plan", file=sys.stderr)
        return
    show_rows([*plan_rows(response["plan"]["steps"])])


@tasks.command()
def calls(
    context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """List the calls of a task to models, and those of its sub-tasks."""
    options = inherit_options(context, url, key, json)
    response = options.remote.admin("GET", f"{_path(task_id)}/calls")
    if options.as_json:
        show(response, as_json=True)
        return
    show_rows(call_rows(task_id, response["data"]))
    if response["dropped"]:
        print(f"{response['dropped']} records of calls could not be stored", file=sys.stderr)


@tasks.command("context")
def show_context(
    context: typer.Context,
    task_id: TaskId,
    call: Annotated[int | None, typer.Option("--call", help="The number of the call. Default: the latest one.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Print the prompt of a call, and its response."""
    options = inherit_options(context, url, key, json)
    query = {"call": call} if call is not None else {}
    found = options.remote.admin("GET", f"{_path(task_id)}/context", None, **query)
    if options.as_json:
        show(found, as_json=True)
        return
    print(found["system_prompt"], found["user_prompt"], "", "# Response", "", found["response"], sep="\n")


@tasks.command()
def diff(context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Print what a task has changed since its base."""
    options = inherit_options(context, url, key, json)
    found = options.remote.admin("GET", f"{_path(task_id)}/diff")
    show(found, as_json=True) if options.as_json else print(found["diff"], end="")


@tasks.command()
def approve(
    context: typer.Context,
    task_id: TaskId,
    method: Annotated[str, typer.Option("--method", help="The method: merge, squash or rebase.")] = "merge",
    head: Annotated[
        str | None, typer.Option("--head", help="The commit that was reviewed; fails if it changed.")
    ] = None,
    approver: Annotated[str, typer.Option("--as", metavar="NAME", help="Who approves; recorded.")] = "",
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Merge the branch of a task into its base branch. Nothing is pushed; in a conflict nothing is changed."""
    options = inherit_options(context, url, key, json)
    task = options.remote.admin("GET", _path(task_id))
    body = {"method": method, "head": head or task["head"], "approver": approver}
    _decide(options, task_id, "approve", body, f"merged into {task['base_branch']}")


@tasks.command()
def changes(
    context: typer.Context,
    task_id: TaskId,
    comment: Annotated[str, typer.Argument(help="What has to be changed.")],
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Request changes: another attempt is made on the same branch."""
    _decide(
        inherit_options(context, url, key, json), task_id, "changes", {"comment": comment}, "another attempt begins"
    )


@tasks.command()
def reject(
    context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """End a task without a merge; its branch is deleted."""
    _decide(inherit_options(context, url, key, json), task_id, "reject", {}, "rejected")


@tasks.command()
def answer(
    context: typer.Context,
    task_id: TaskId,
    what: Annotated[str, typer.Argument(metavar="ANSWER", help="One of retry, skip (the step) and stop (the task).")],
    note: Annotated[
        str, typer.Option("--note", help="Instructions for the model, part of the prompt of the next attempt.")
    ] = "",
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Continue a halted task."""
    _decide(inherit_options(context, url, key, json), task_id, "answer", {"answer": what, "note": note}, "continues")


@tasks.command()
def retry(
    context: typer.Context,
    task_id: TaskId,
    step: Annotated[int, typer.Option("--step", help="The number of the step, from 1.")] = 1,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Repeat a waiting task from a step on; the commits of this and all later steps are dropped."""
    _decide(inherit_options(context, url, key, json), task_id, "retry", {"step": step}, f"continues with step {step}")


@tasks.command()
def cancel(
    context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Cancel a task; its branch is kept."""
    options = inherit_options(context, url, key, json)
    task = options.remote.admin("POST", f"{_path(task_id)}/cancel")
    if options.as_json:
        show(task, as_json=True)
    else:
        print(task["status"] if task["status"] == "cancelled" else f"{task['status']}; it ends when its phase has")


@tasks.command()
def delete(
    context: typer.Context, task_id: TaskId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Delete a task that has ended, with its prompts and responses."""
    options = inherit_options(context, url, key, json)
    deleted = options.remote.admin("DELETE", _path(task_id))
    show(deleted, as_json=True) if options.as_json else print(f"deleted {deleted['id']}")


@tasks.command()
def allow(repo: Annotated[Path, typer.Argument(metavar="PATH", help="The top folder of a git repository.")]) -> None:
    """Allow tasks in a repository of this machine. It is recorded in the state folder of the daemon's user."""
    from forge_proxy.backends.capability_cache import state_folder
    from forge_proxy.daemon.tasks import recorded_repositories

    print(f"tasks may work in {recorded_repositories(state_folder()).allow(repo)}")


@tasks.command()
def gc(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Remove the worktrees that no task needs, such as those of a killed daemon. The branches are kept."""
    options = inherit_options(context, url, key, json)
    found = options.remote.admin("POST", f"{_ROUTE}/gc", {"dry_run": dry_run})
    if options.as_json:
        show(found, as_json=True)
        return
    if not found["data"]:
        print("no worktrees to remove", file=sys.stderr)
    show_rows([(one["task_id"], one["path"]) for one in found["data"]])


def _decide(options: CommandOptions, task_id: str, action: str, body: dict[str, Any], done: str) -> None:
    task = options.remote.admin("POST", f"{_path(task_id)}/{action}", body)
    show(task, as_json=True) if options.as_json else print(done)


def _watch(options: CommandOptions, task_id: str) -> None:
    """Print events until the task waits for a person or ends; events of former waits are printed, too."""
    latest = options.remote.admin("GET", _path(task_id))["last_event"]
    is_last = partial(is_end_of_work, latest=latest)
    with closing(options.remote.events(f"{_path(task_id)}/events", is_last, {"sub_tasks": True})) as events:
        for event in events:
            if options.as_json:
                print(jsonlib.dumps(asdict(event)), flush=True)
            elif (line := describe_task_event(event)) is not None:
                print(line, flush=True)
            if is_last(event):  # the stream of a task that waits for a person does not end
                break
    _conclude(options, options.remote.admin("GET", _path(task_id)))


def _conclude(options: CommandOptions, task: dict[str, Any]) -> None:
    task_id = task["id"]
    if task["status"] == "requires_action":
        if not options.as_json:
            print(f"{task['branch']} is ready for review: {', '.join(task['output_files'])}")
            print(f"forge-proxy tasks diff {task_id}; forge-proxy tasks approve {task_id}")
        return
    if task["status"] == "halted":
        how = f"'forge-proxy tasks show {task_id}' has the report, 'forge-proxy tasks answer {task_id} retry' continues"
        raise TaskDidNotSucceed(f"the task has halted: {task['halt']}; {how}")
    if task["status"] != "completed" or task["result"] != "merged":
        raise TaskDidNotSucceed(task["error"] or f"the task was {task['result'] or task['status']}")


def _list(options: CommandOptions, limit: int, status: str | None) -> None:
    query: dict[str, Any] = {"limit": limit, **({"status": status} if status else {})}
    response = options.remote.admin("GET", _ROUTE, None, **query)
    if options.as_json:
        show(response, as_json=True)
        return
    if not response["data"]:
        print(f"no tasks with status {status}" if status else "no tasks", file=sys.stderr)
    show_rows([
        (task["id"], f"{task['status']:<16}{describe_time(task['created_at'])}  {task['title']}")
        for task in response["data"]
    ])  # fmt: skip


def _path(task_id: str) -> str:
    return f"{_ROUTE}/{quote(task_id, safe='')}"
