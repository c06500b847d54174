"""Formats tasks and their events as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from forge_proxy.cli.run_rows import describe_time
from forge_proxy.client.remote import SentEvent

_HIDDEN = ("queued", "running")
"""Statuses that every phase has, so that they are not displayed."""


def task_rows(task: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of `/admin/v1/tasks/{id}`."""
    ends = "; it ends when its phase has" if task["cancel_requested"] and task["status"] == "running" else ""
    step = f"{task['operation']}{' of ' + task['step'] if task['step'] else ''}, attempt {task['attempt']}"
    rows = [
        ("id", task["id"]),
        ("status", task["status"] + ends),
        ("title", task["title"]),
        ("created", describe_time(task["created_at"])),
        ("updated", describe_time(task["updated_at"])),
        ("repository", task["input"]["repository"]),
        ("branch", f"{task['branch']} at {task['head'][:12]}"),
        ("base", f"{task['base_branch']} at {task['base_commit'][:12]}"),
        ("present", step),
        ("calls", str(task["calls"])),
    ]
    if task["waits_for"]:
        rows.append(("waits for", ", ".join(task["waits_for"])))
    if task["batch"]:
        rows.append(("waits for", task["batch"]))
    if task["output_files"]:
        rows.append(("files", ", ".join(task["output_files"])))
    rows += [(label, text) for label, text in (("result", task["result"]), ("halted", task["halt"])) if text]
    return rows


def sub_task_rows(sub_tasks: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the rows of sub-tasks, each with its latest state."""
    for one in sub_tasks:
        what = ", ".join(one["output_files"]) or one["reason"] or f"{one['operation']}, attempt {one['attempt']}"
        yield one["id"], f"{one['status']:<10} {what}"


def plan_rows(parts: Sequence[dict[str, Any]], indent: str = "") -> Iterator[tuple[str, str]]:
    """Yield the steps of a plan, each followed by its sub-tasks."""
    for part in parts:
        files = f"  ({', '.join(part['target_files'])})" if part["target_files"] else ""
        yield f"{indent}{part['id']}", f"{part['description']}{files}"
        yield from plan_rows(part["sub_tasks"], indent + "  ")


def failure_rows(task: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the report of the attempts that have failed."""
    for failure in task["failures"]:
        place = f"{failure['step']} " if failure["step"] else ""
        yield f"{place}attempt {failure['attempt']}", failure["reason"]
        for finding in failure["findings"][:20]:
            yield "", describe_finding(finding)


def describe_finding(finding: dict[str, Any]) -> str:
    """Describe a finding on one line."""
    place = ":".join(str(finding[name]) for name in ("path", "line", "column") if finding[name] is not None)
    words = [f"[{finding['check']}]", place and f"{place}:", finding["code"], finding["message"].splitlines()[0]]
    return " ".join(word for word in words if word)


def call_rows(task_id: str, calls: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the rows of the calls of a task and of its sub-tasks."""
    rows: list[tuple[str, str]] = []
    for call in calls:
        number = str(call["number"] or "-")
        rows.append((number if call["task"] == task_id else f"{call['task']} {number}", _describe_model_call(call)))
    return rows


def _describe_model_call(call: dict[str, Any]) -> str:
    """Describe a call to a model on one line."""
    step = f" of {call['step']}" if call["step"] else ""
    tokens = _describe_tokens(call)
    levels = f", edits {' '.join(call['match_levels'])}" if call["match_levels"] else ""
    what = f"{call['operation']}{step}, attempt {call['attempt']}: {call['tier']}, {call['model'] or 'no model'}"
    return f"{what}, {tokens}, {call['seconds']:.1f} s, {call['outcome']}{levels}"


def _describe_tokens(call: dict[str, Any]) -> str:
    if call["prompt_tokens"] is None or call["completion_tokens"] is None:
        return "tokens unknown"
    cached = f" ({call['cached_tokens']} cached)" if call.get("cached_tokens") else ""
    return f"{call['prompt_tokens']}{cached} + {call['completion_tokens']} tokens"


def describe_task_event(event: SentEvent) -> str | None:
    """Describe an event on one line; None for a change of status within a phase."""
    data = event.data
    match event.type:
        case "status" if data["status"] in _HIDDEN:
            return None
        case "called":
            words = f"{data['model']}: {_describe_tokens(data)} in {data['seconds']} s"
        case "validated":
            words = ", ".join(
                f"{check['check']} {'passed' if check['passed'] else 'failed'}" for check in data["checks"]
            )
        case "attempt_ended" | "halted":
            words = data["reason"]
        case "finding":
            words = f"[{data['check']}] {data['text']}"
        case "written" | "returned":
            words = ", ".join(data["files"])
        case "sub_tasks_started":
            words = ", ".join(data["sub_tasks"])
        case "gathered":
            conflicts = f"; conflicts in {', '.join(data['conflicts'])}" if data["conflicts"] else ""
            words = f"{', '.join(data['files'])}{conflicts}"
        case "assembled":
            words = f"{data['tokens']} tokens"
        case "waiting_for":
            words = ", ".join(data["tasks"])
        case "committed":
            words = data["commit"][:12]
        case _:
            shown = {name: value for name, value in data.items() if name not in ("operation", "attempt", "task")}
            words = ", ".join(f"{name} {value}" for name, value in shown.items() if value is not None)
    if "task" in data:  # of a sub-task, whose events have no ids here
        return f"      {event.type:<17} {data['task']}: {words}"
    step = f"{data['step']}: " if data.get("step") else ""
    return f"{event.id:>4}  {event.type:<17} {step}{words}"
