"""`forge-proxy jobs`: the jobs of a running daemon, of every kind."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import quote

import typer

from forge_proxy.cli.admin import AsJson, CommandOptions, OwnKey, OwnUrl, inherit_options, list_by_default
from forge_proxy.cli.formatting import show, show_rows
from forge_proxy.cli.run_rows import describe_event, describe_time, is_end
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import is_object

jobs = typer.Typer(name="jobs", help="Jobs that the daemon executes in the background: list, show, watch, cancel.")
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job, as 'jobs list' prints it.")]


class JobDidNotComplete(ForgeError):
    """The watched job failed or was cancelled."""


list_by_default(jobs, lambda options: _list(options, {"limit": 20}))


@jobs.command("list")
def list_jobs(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The number of jobs, without their descendants.")] = 20,
    kind: Annotated[str | None, typer.Option("--kind", help="Only jobs of this kind, such as run.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only jobs with this status.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """List the jobs of all kinds, newest first, each with its descendants."""
    wanted = {"limit": limit, "kind": kind, "status": status}
    query = {name: value for name, value in wanted.items() if value is not None}
    _list(inherit_options(context, url, key, json), query)


@jobs.command("show")
def show_job(
    context: typer.Context, job_id: JobId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False
) -> None:
    """Show a job: its status, its next phase, its outcome, and its descendants."""
    options = inherit_options(context, url, key, json)
    job = options.remote.admin("GET", _path(job_id))
    if options.as_json:
        show(job, as_json=True)
    else:
        show_rows([*_rows(job), *_tree_rows(job["children"])])


@jobs.command()
def watch(context: typer.Context, job_id: JobId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Print the events of a job until it ends. Exit code 1 if it does not complete."""
    options = inherit_options(context, url, key, json)
    for event in options.remote.events(f"{_path(job_id)}/events", is_end):
        print(jsonlib.dumps(asdict(event)) if options.as_json else describe_event(event), flush=True)
    job = options.remote.admin("GET", _path(job_id))
    if job["status"] != "completed":
        raise JobDidNotComplete(_error_of(job) or f"the job is {job['status']}")


@jobs.command()
def cancel(context: typer.Context, job_id: JobId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Cancel a job and its descendants. A running step may finish first."""
    options = inherit_options(context, url, key, json)
    job = options.remote.admin("POST", f"{_path(job_id)}/cancel")
    if options.as_json:
        show(job, as_json=True)
    else:
        print(job["status"] if job["status"] == "cancelled" else f"{job['status']}; it ends when its step has")


def _list(options: CommandOptions, query: dict[str, Any]) -> None:
    response = options.remote.admin("GET", "jobs", None, **query)
    if options.as_json:
        show(response, as_json=True)
        return
    if not response["data"]:
        print("no jobs", file=sys.stderr)
    show_rows([*_tree_rows(response["data"])])


def _tree_rows(found: list[dict[str, Any]], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield a row for each job, indented below the job that created it."""
    for job in found:
        words = f"{job['kind']:<8}{job['status']:<16}{describe_time(job['created_at'])}  {job['title']}"
        yield "  " * depth + job["id"], words
        yield from _tree_rows(job["children"], depth + 1)


def _rows(job: dict[str, Any]) -> list[tuple[str, str]]:
    ends = "; it ends when its step has" if job["cancel_requested"] and job["phase"] else ""
    rows = [
        ("id", job["id"]),
        ("kind", job["kind"]),
        ("status", job["status"] + ends),
        ("title", job["title"]),
        ("model", job["model"] or "the daemon's usual one"),
        ("created", describe_time(job["created_at"])),
        ("updated", describe_time(job["updated_at"])),
    ]
    if job["parent"] is not None:
        rows.append(("parent", job["parent"]))
    if job["wake_at"] is not None:
        rows.append(("continues", describe_time(job["wake_at"])))
    if job["phase"] is not None:
        attempt = f", attempt {job['attempt']}" if job["attempt"] > 1 else ""
        rows.append(("step", f"{job['phase']} in the queue {job['queue']}{attempt}"))
    if (error := _error_of(job)) is not None:
        rows.append(("error", error))
    elif job["outcome"] is not None:
        rows.append(("outcome", jsonlib.dumps(job["outcome"], ensure_ascii=False)))
    return rows


def _error_of(job: dict[str, Any]) -> str | None:
    outcome = job["outcome"]
    if not is_object(outcome) or outcome.get("kind") != "error":
        return None
    return f"{outcome['type']}: {outcome['message']}"


def _path(job_id: str) -> str:
    return f"jobs/{quote(job_id, safe='')}"
