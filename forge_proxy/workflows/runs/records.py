"""Records of stored runs and of their events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.jsontypes import JsonObject

RunStatus: TypeAlias = Literal["queued", "running", "requires_action", "completed", "failed", "cancelled"]
FINISHED: tuple[RunStatus, ...] = ("completed", "failed", "cancelled")
"""Final statuses."""

EventType: TypeAlias = Literal[
    "status", "message", "retry", "compacted", "tool_started", "tool_finished", "iteration", "waiting",
    "cancel_requested",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunHead:
    """The fields of a run in lists. Times are in seconds since 1970."""

    id: str
    status: RunStatus
    workflow: str
    """The workflow's name."""
    model: str | None
    created_at: float
    updated_at: float
    last_event: int = 0
    """The id of the latest event, which also serves as the version for concurrent writes."""
    cancel_requested: bool = False

    @property
    def finished(self) -> bool:
        """Whether the run has a final status."""
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class StoredRun(RunHead):
    """A run as stored, without its events. The last three fields are JSON texts."""

    submission: str = ""
    state: str = ""
    outcome: str | None = None
    """The result or the error; None before the run ends."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event of a run before it is stored."""

    type: EventType
    data: JsonObject


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event as stored. Ids count from 1 within the run; `data` is JSON text."""

    id: int
    type: str
    data: str
    at: float
