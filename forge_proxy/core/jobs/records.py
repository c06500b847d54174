"""Records of stored jobs, of their events and of documents."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from forge_proxy.core.jsontypes import JsonObject

JobStatus: TypeAlias = Literal[
    "queued", "running", "waiting", "requires_action", "halted", "completed", "failed", "cancelled"
]
"""`waiting` is for a time or for child jobs, `requires_action` for the job's client, `halted` for a person."""
FINISHED: tuple[JobStatus, ...] = ("completed", "failed", "cancelled")
"""Final statuses."""
CLIENT_CONTINUES: tuple[JobStatus, ...] = ("requires_action", "halted")
"""Statuses that only a client or a person ends."""
NOTIFIED: tuple[JobStatus, ...] = (*FINISHED, *CLIENT_CONTINUES)
"""The statuses that create a notification."""


@dataclass(frozen=True, slots=True)
class JobHead:
    """The fields of a job in lists. Times are in seconds since 1970."""

    id: str
    kind: str
    status: JobStatus
    title: str
    """The name of the job in lists, such as that of its workflow."""
    model: str | None
    created_at: float
    updated_at: float
    last_event: int = 0
    """The id of the latest event, which also serves as the version for concurrent writes."""
    cancel_requested: bool = False
    wake_at: float | None = None
    """When a waiting job continues by itself."""
    owner: str | None = None
    """The client that may see the job; None: only the admin API shows it."""
    parent: str | None = None
    root: str = ""
    """The job at the top of the tree, which may be the job itself."""
    depth: int = 0
    """The number of jobs above it in the tree."""
    wake_requested: bool = False
    """Whether the job was woken while it did not wait: its next wait ends at once, unless it is for a client."""

    @property
    def is_finished(self) -> bool:
        """Whether the job has a final status."""
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class StoredJob(JobHead):
    """A job as stored, without its events."""

    action: str = ""
    """The next action, as JSON (`core/jobs/actions`)."""
    state: str = ""
    """The kind's own state, packed (`core/jobs/packed_text`)."""
    outcome: str | None = None
    """The result or the error as JSON; None before the job ends."""
    notify_url: str | None = None
    change_id: str = ""
    """A random id of the change that stored the record: a repeated change is known by it."""


OutboxSignal: TypeAlias = Literal["start", "wake", "cancel"]
"""A change of a job that an external scheduler has to be informed of."""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A message about a job that still has to be sent to another scheduler."""

    id: int
    job_id: str
    signal: OutboxSignal


@dataclass(frozen=True, slots=True)
class Schedule:
    """Jobs of a kind that are created again and again. Times are in seconds since 1970."""

    name: str
    kind: str
    interval: float
    """Seconds."""
    next_at: float
    job_id: str | None = None
    """The job that was created last."""


@dataclass(frozen=True, slots=True)
class Notification:
    """The client of a job has to be notified, at `url`, of the event that gave the job its status."""

    job_id: str
    event: int
    url: str


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before it is stored."""

    type: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event as stored. Ids count from 1 within the job; `data` is JSON text."""

    id: int
    type: str
    data: str
    at: float


@dataclass(frozen=True)
class Document:
    """Content too large for a job's state. It is addressed by its SHA-256 and stored once."""

    content: bytes

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class IdempotencyClaim:
    """A client's `Idempotency-Key`, and a digest of the submission it was sent with."""

    key: str
    digest: str
