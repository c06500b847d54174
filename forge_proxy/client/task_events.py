"""Detects the last event of a task for which a client waits."""

from __future__ import annotations

from forge_proxy.client.remote import SentEvent

_ENDS = ("completed", "failed", "cancelled")
_WAITS = ("requires_action", "halted")


def is_end(event: SentEvent) -> bool:
    """Whether the task has ended with this event. Those of its sub-tasks do not count."""
    return _status_of(event) in _ENDS


def is_end_of_work(event: SentEvent, latest: int) -> bool:
    """Whether the task has ended or waits for a person with this event.

    Waits before the event with the id `latest` are over: a person has decided since.
    """
    return is_end(event) or (_status_of(event) in _WAITS and event.id >= latest)


def _status_of(event: SentEvent) -> str | None:
    return event.data.get("status") if event.type == "status" and "task" not in event.data else None
