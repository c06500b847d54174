"""`forge-proxy runs`: workflows that a running daemon executes."""

from __future__ import annotations

import json as jsonlib
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from forge_proxy.cli.admin import AsJson, CommandOptions, OwnKey, OwnUrl, inherit_options, list_by_default
from forge_proxy.cli.formatting import show, show_rows
from forge_proxy.cli.run_files import NotASubmission, parse_outputs, read_outputs_file, read_submission_file
from forge_proxy.cli.run_rows import describe_call, describe_event, describe_result, describe_time, is_end, run_rows
from forge_proxy.core.deprecation import describe_rename
from forge_proxy.core.errors import ForgeError

runs = typer.Typer(
    name="runs", help="Workflows that the daemon executes: submit, watch, show, list, outputs, cancel, delete."
)
RunId = Annotated[str, typer.Argument(metavar="ID", help="The run, as 'runs submit' and 'runs list' print it.")]


class RunDidNotComplete(ForgeError):
    """The watched run failed or was cancelled."""


list_by_default(runs, lambda options: _list(options, 20, None))


@runs.command()
def submit(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON file with the workflow and the user's message; - is stdin.")],
    follow: Annotated[bool, typer.Option("--watch", help="Print its events until it ends.")] = False,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", metavar="KEY", help="A second submission with this key returns the first run."
        ),
    ] = None,
    once: Annotated[str | None, typer.Option("--once", metavar="KEY", hidden=True)] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Submit a run and print its id; it continues whether or not it is watched."""
    options = inherit_options(context, url, key, json)
    if once is not None:
        print(f"forge-proxy: {describe_rename('--once', '--idempotency-key')}", file=sys.stderr)
        idempotency_key = once if idempotency_key is None else idempotency_key
    if idempotency_key is not None and not re.fullmatch("[!-~]([ -~]{0,198}[!-~])?", idempotency_key):
        why = "expected up to 200 characters of ASCII, without leading or trailing spaces"
        raise NotASubmission(f"--idempotency-key: {why}")
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}
    run = options.remote.ask("POST", "/admin/v1/runs", read_submission_file(file), headers=headers)
    if not follow:
        show(run, as_json=True) if options.as_json else print(run["id"])
        return
    if not options.as_json:
        print(run["id"])
    _watch(options, run["id"])


@runs.command()
def watch(context: typer.Context, run_id: RunId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Print the events of a run until it ends. Exit code 1 if it does not complete."""
    _watch(inherit_options(context, url, key, json), run_id)


@runs.command()
def cancel(context: typer.Context, run_id: RunId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Cancel a run; a tool that is being executed finishes first."""
    options = inherit_options(context, url, key, json)
    run = options.remote.admin("POST", f"{_path(run_id)}/cancel")
    if options.as_json:
        show(run, as_json=True)
    else:
        print(run["status"] if run["status"] == "cancelled" else f"{run['status']}; it ends when its tool has")


@runs.command("show")
def show_run(
    context: typer.Context, run_id: RunId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Show a run: its status, its steps, the calls it waits for, its result or error; --json has the messages too."""
    options = inherit_options(context, url, key, json)
    run = options.remote.admin("GET", _path(run_id))
    if options.as_json:
        show(run, as_json=True)
    else:
        show_rows(run_rows(run))


@runs.command()
def delete(context: typer.Context, run_id: RunId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Delete a run that has ended, with its messages and events."""
    options = inherit_options(context, url, key, json)
    deleted = options.remote.admin("DELETE", _path(run_id))
    if options.as_json:
        show(deleted, as_json=True)
    else:
        print(f"deleted {deleted['id']}")


@runs.command()
def outputs(
    context: typer.Context,
    run_id: RunId,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="CALL=VALUE", help="The output of a call: JSON, or else text. Repeatable."),
    ] = None,
    error: Annotated[
        list[str] | None,
        typer.Option("--error", metavar="CALL=WHY", help="The tool failed; the model reads why. Repeatable."),
    ] = None,
    unresolved: Annotated[
        list[str] | None,
        typer.Option(
            "--unresolved", metavar="CALL=WHY", help="The tool found nothing, which is not an error. Repeatable."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help='JSON: {"outputs": [{"tool_call_id": …, "output": …}]}; - is stdin.')
    ] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Send the outputs of calls that a run waits for; after the last one it continues."""
    options = inherit_options(context, url, key, json)
    sent = [
        *parse_outputs(values or (), "output"),
        *parse_outputs(error or (), "error"),
        *parse_outputs(unresolved or (), "unresolved"),
        *(read_outputs_file(file) if file is not None else ()),
    ]
    if not sent:
        raise NotASubmission("name at least one output, as CALL=VALUE or with --file; 'runs show ID' lists the calls")
    run = options.remote.admin("POST", f"{_path(run_id)}/tool_outputs", {"outputs": sent})
    if options.as_json:
        show(run, as_json=True)
    else:
        print(run["status"], *(f"\nwaits for {describe_call(call)}" for call in run["required_action"]), sep="")


@runs.command("list")
def list_runs(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The number of runs.")] = 20,
    status: Annotated[str | None, typer.Option("--status", help="Only runs with this status.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """List the runs, newest first."""
    _list(inherit_options(context, url, key, json), limit, status)


def _list(options: CommandOptions, limit: int, status: str | None) -> None:
    query: dict[str, Any] = {"limit": limit, **({"status": status} if status else {})}
    response = options.remote.admin("GET", "runs", None, **query)
    if options.as_json:
        show(response, as_json=True)
        return
    if not response["data"]:
        print(f"no runs with status {status}" if status else "no runs", file=sys.stderr)
    rows = [
        (run["id"], f"{run['status']:<16}{describe_time(run['created_at'])}  {run['workflow']}")
        for run in response["data"]
    ]
    show_rows(rows)


def _watch(options: CommandOptions, run_id: str) -> None:
    for event in options.remote.events(f"{_path(run_id)}/events", is_end):
        print(jsonlib.dumps(asdict(event)) if options.as_json else describe_event(event), flush=True)
        if event.type == "status" and event.data["status"] == "requires_action":
            _print_required_action(options, run_id)
    run = options.remote.admin("GET", _path(run_id))
    if run["status"] != "completed":
        raise RunDidNotComplete(run["error"]["message"] if run["error"] else f"the run is {run['status']}")
    if not options.as_json:
        print(describe_result(run["result"]["result"]))


def _print_required_action(options: CommandOptions, run_id: str) -> None:
    """Print which outputs the run waits for, unless the event is outdated: events are replayed from the beginning."""
    path = _path(run_id)
    if calls := options.remote.admin("GET", path)["required_action"]:
        waits = ", ".join(f"{call['function']['name']} [{call['id']}]" for call in calls)
        send = f"'forge-proxy runs outputs {run_id} CALL=VALUE …'"
        route = f"POST {options.url.rstrip('/')}/admin/v1/{path}/tool_outputs"
        text = f"forge-proxy: the run waits for the outputs of {waits}; send them with {send} or {route}"
        print(text, file=sys.stderr, flush=True)


def _path(run_id: str) -> str:
    return f"runs/{quote(run_id, safe='')}"
