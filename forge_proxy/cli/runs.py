"""`forge-proxy runs`: workflows that a running daemon drives."""

from __future__ import annotations

import json as jsonlib
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_proxy.cli.admin import AsJson, Asked, Key, OwnKey, OwnUrl, Url, asked_of
from forge_proxy.cli.remote import DEFAULT_URL, SentEvent
from forge_proxy.cli.shown import show, show_rows
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import DECODER, write

_ENDED = ("completed", "failed", "cancelled")
_SHOWN = 200
"""Characters of a message that are shown of it; `--json` shows all."""

runs = typer.Typer(name="runs", help="Workflows that the daemon drives: submit, watch, cancel, list.")
RunId = Annotated[str, typer.Argument(metavar="ID", help="As `runs submit` and `runs list` print it.")]


class NotASubmission(ForgeError):
    """What is to be submitted cannot be read."""


class RunDidNotComplete(ForgeError):
    """The run that was watched came to another end."""


@runs.callback(invoke_without_command=True)
def _group(  # pyright: ignore[reportUnusedFunction]
    context: typer.Context, url: Url = DEFAULT_URL, key: Key = None, json: AsJson = False
) -> None:
    context.obj = Asked(url, key, json)
    if context.invoked_subcommand is None:
        _list(context.obj, 20, None)


@runs.command()
def submit(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON: the workflow and what it is about; - is stdin.")],
    follow: Annotated[bool, typer.Option("--watch", help="Show what happens until it ends.")] = False,
    once: Annotated[
        str | None, typer.Option("--once", metavar="KEY", help="With the same key it is submitted no second time.")
    ] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """Submit a run. Its id is printed; it goes on whether anybody watches or not."""
    asked = asked_of(context, url, key, json)
    if once is not None and not re.fullmatch("[!-~]([ -~]{0,198}[!-~])?", once):
        raise NotASubmission("--once: expected up to 200 characters of ASCII, without space around them")
    headers = {"Idempotency-Key": once} if once is not None else {}
    run = asked.remote.ask("POST", "/admin/v1/runs", _read(file), headers=headers)
    if not follow:
        show(run, as_json=True) if asked.as_json else print(run["id"])
        return
    if not asked.as_json:
        print(run["id"])
    _watch(asked, run["id"])


@runs.command()
def watch(context: typer.Context, run_id: RunId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Show what has happened, and what happens until the run ends. Exit code 1 where it does not complete."""
    _watch(asked_of(context, url, key, json), run_id)


@runs.command()
def cancel(context: typer.Context, run_id: RunId, url: OwnUrl = None, key: OwnKey = None, json: AsJson = False) -> None:
    """Cancel a run. A tool that is executed now is waited for."""
    asked = asked_of(context, url, key, json)
    run = asked.remote.admin("POST", f"runs/{run_id}/cancel")
    if asked.as_json:
        show(run, as_json=True)
    else:
        print(run["status"] if run["status"] == "cancelled" else f"{run['status']}; it ends when its tool has")


@runs.command("list")
def list_runs(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many, the newest first.")] = 20,
    status: Annotated[str | None, typer.Option("--status", help="Only those in this state.")] = None,
    url: OwnUrl = None,
    key: OwnKey = None,
    json: AsJson = False,
) -> None:
    """The runs, newest first."""
    _list(asked_of(context, url, key, json), limit, status)


def _list(asked: Asked, limit: int, status: str | None) -> None:
    query: dict[str, Any] = {"limit": limit, **({"status": status} if status else {})}
    said = asked.remote.admin("GET", "runs", None, **query)
    if asked.as_json:
        show(said, as_json=True)
        return
    rows = [(run["id"], f"{run['status']:<16}{_when(run['created_at'])}  {run['workflow']}") for run in said["data"]]
    show_rows(rows)


def _watch(asked: Asked, run_id: str) -> None:
    for event in asked.remote.events(f"runs/{run_id}/events", _ends):
        print(jsonlib.dumps(asdict(event)) if asked.as_json else _line(event), flush=True)
        if event.type == "status" and event.data["status"] == "requires_action":
            _tell_what_it_waits_for(asked, run_id)
    run = asked.remote.admin("GET", f"runs/{run_id}")
    if run["status"] != "completed":
        raise RunDidNotComplete(run["error"]["message"] if run["error"] else f"the run is {run['status']}")
    if not asked.as_json:
        result = run["result"]["result"]
        print(result if isinstance(result, str) else jsonlib.dumps(result, indent=2, ensure_ascii=False))


def _tell_what_it_waits_for(asked: Asked, run_id: str) -> None:
    """Say whose turn it is, unless that is past: events are shown from the beginning."""
    path = f"runs/{run_id}"
    if calls := asked.remote.admin("GET", path)["required_action"]:
        waits = ", ".join(f"{call['function']['name']} [{call['id']}]" for call in calls)
        route = f"POST {asked.url.rstrip('/')}/admin/v1/{path}/tool_outputs"
        print(f"forge-proxy: the run waits for the outputs of {waits}: {route}", file=sys.stderr, flush=True)


def _ends(event: SentEvent) -> bool:
    return event.type == "status" and event.data["status"] in _ENDED


def _line(event: SentEvent) -> str:
    data = event.data
    match event.type:
        case "status":
            calls = "".join(f"\n      {_call(call)}" for call in data.get("calls", ()))
            words = data["status"] + (f": {data['error']}" if "error" in data else "") + calls
        case "message":
            calls = ", ".join(_call(call) for call in data.get("tool_calls", ()))
            words = f"{data['type']}: {' '.join(filter(None, (_short(data['content']), calls)))}"
        case "tool_started":
            words = data["tool"]
        case "tool_finished":
            words = f"{data['tool']}: {data['status']}"
        case _:
            words = ", ".join(f"{name} {value}" for name, value in data.items())
    return f"{event.id:>4}  {event.type:<14}{words}"


def _call(call: dict[str, Any]) -> str:
    return f"{call['function']['name']}({_short(call['function']['arguments'])}) [{call['id']}]"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _read(file: Path) -> dict[str, Any]:
    name = "stdin" if str(file) == "-" else str(file)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        said: Any = DECODER.decode(text)
        write(said).encode()  # JSON can hold halves of characters, which no request can
    except OSError as exc:
        raise NotASubmission(f"{name}: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise NotASubmission(f"{name}: not JSON: {exc}") from exc
    if not isinstance(said, dict):
        raise NotASubmission(f"{name}: expected an object with workflow and user_message")
    return said  # pyright: ignore[reportUnknownVariableType]
