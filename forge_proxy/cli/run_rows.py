"""Formats runs, and the events of runs and other jobs, as text for people. Pure, except for the time zone."""

from __future__ import annotations

import json
import time
from typing import Any

from forge_proxy.client.remote import SentEvent

_MAX_CHARS = 200
"""Maximum number of characters shown of a message; `--json` prints all."""


def is_end(event: SentEvent) -> bool:
    """Return whether an event is the last one of its run or job."""
    return event.type == "status" and event.data["status"] in ("completed", "failed", "cancelled")


def run_rows(run: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of `/admin/v1/runs/{id}`, without the messages."""
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
    """Describe an event on one line, plus one line for each call that the run waits for."""
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
    """Describe a call with its id, which an output must name."""
    return f"{call['function']['name']}({_shorten(call['function']['arguments'])}) [{call['id']}]"


def describe_result(result: Any) -> str:
    """Return text unchanged and any other value as JSON."""
    return result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False)


def describe_time(seconds: float) -> str:
    """Format Unix time in seconds as local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_CHARS else f"{words[:_MAX_CHARS]}…"
