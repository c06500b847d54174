"""The rows of jobs and of their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from forge_proxy.core.jobs.records import JobEvent, StoredJob

_UNCHANGED = ("id", "kind", "title", "model", "created_at", "owner", "parent", "root", "depth", "notify_url")
"""Columns that no change of a job writes."""
CHANGED = tuple(field.name for field in fields(StoredJob) if field.name not in _UNCHANGED)
"""The other columns."""


def changed_columns(job: StoredJob) -> dict[str, object]:
    """Return what a change of a job writes in its row."""
    return {name: getattr(job, name) for name in CHANGED}


def event_rows(job_id: str, events: Sequence[JobEvent]) -> list[dict[str, object]]:
    """Return the rows of events."""
    return [
        {"job_id": job_id, "id": event.id, "type": event.type, "data": event.data, "at": event.at} for event in events
    ]
