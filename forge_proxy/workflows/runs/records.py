"""A run as it is stored, and what is told of it while it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.jsontypes import JsonObject

RunStatus: TypeAlias = Literal["queued", "running", "requires_action", "completed", "failed", "cancelled"]
FINISHED: tuple[RunStatus, ...] = ("completed", "failed", "cancelled")
"""What a run stays once it is that."""

EventType: TypeAlias = Literal[
    "status", "message", "retry", "compacted", "tool_started", "tool_finished", "iteration", "waiting",
    "cancel_requested",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunHead:
    """What is listed of a run. Times are in seconds since 1970."""

    id: str
    status: RunStatus
    workflow: str
    """The workflow's name."""
    model: str | None
    created_at: float
    updated_at: float
    last_event: int = 0
    """The id of its latest event, which is also how often it was changed: writers go by it."""
    cancel_requested: bool = False

    @property
    def finished(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class StoredRun(RunHead):
    """All that is stored of a run but its events. The last three are JSON texts."""

    submission: str = ""
    state: str = ""
    outcome: str | None = None
    """Its result or its error, once it has one."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something that happened to a run."""

    type: EventType
    data: JsonObject


@dataclass(frozen=True, slots=True)
class RunEvent:
    """The same as it is stored. Ids count from 1 within the run; `data` is JSON text."""

    id: int
    type: str
    data: str
    at: float
