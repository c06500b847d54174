"""A run and its events as text for people. Pure, but for the time zone."""

from __future__ import annotations

import json
import time
from typing import Any

from forge_proxy.cli.remote import SentEvent

_SHOWN = 200
"""Characters of a message that are shown of it; `--json` shows all."""


def run_rows(run: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of `/admin/v1/runs/{id}`, without the messages."""
    ends = "; it ends when its tool has" if run["cancel_requested"] and not run["result"] else ""
    rows = [
        ("id", run["id"]),
        ("status", run["status"] + ends),
        ("workflow", run["workflow"]),
        ("model", run["model"] or "the daemon's usual one"),
        ("created", describe_time(run["created_at"])),
        ("updated", describe_time(run["updated_at"])),
        ("iterations", str(run["iteration"])),
        ("done", ", ".join(run["completed_steps"]) or "none"),
        ("pending", ", ".join(run["pending_steps"]) or "none"),
    ]
    rows += [("waits for", describe_call(call)) for call in run["required_action"]]
    if run["result"]:
        rows.append(("result", describe_result(run["result"]["result"])))
    if run["error"]:
        rows.append(("error", f"{run['error']['type']}: {run['error']['message']}"))
    return rows


def describe_event(event: SentEvent) -> str:
    """An event on one line; the calls that a run waits for have a line each."""
    data = event.data
    match event.type:
        case "status":
            calls = "".join(f"\n      {describe_call(call)}" for call in data.get("calls", ()))
            words = data["status"] + (f": {data['error']}" if "error" in data else "") + calls
        case "message":
            calls = ", ".join(describe_call(call) for call in data.get("tool_calls", ()))
            words = f"{data['type']}: {' '.join(filter(None, (_shorten(data['content']), calls)))}"
        case "tool_started":
            words = data["tool"]
        case "tool_finished":
            words = f"{data['tool']}: {data['status']}"
        case _:
            words = ", ".join(f"{name} {value}" for name, value in data.items())
    return f"{event.id:>4}  {event.type:<14}{words}"


def describe_call(call: dict[str, Any]) -> str:
    """A call with its id, which an output has to name."""
    return f"{call['function']['name']}({_shorten(call['function']['arguments'])}) [{call['id']}]"


def describe_result(result: Any) -> str:
    """Text as it is, anything else as JSON."""
    return result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False)


def describe_time(seconds: float) -> str:
    """Seconds since 1970 as local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
