"""The ports of the Temporal scheduler: its options, and the outbox in the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from forge_proxy.core.jobs.records import OutboxEntry, OutboxSignal
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.temporal_config import TemporalConfig
from forge_proxy.jobs.writers import JobWriters


class Outbox(Protocol):
    """Messages about jobs that still have to be sent to Temporal. Every method raises `StoreUnavailable`.

    The store adds one in the transaction that creates a job or makes a waiting job `queued`.
    """

    async def add(self, job_ids: Sequence[str], signal: OutboxSignal) -> None:
        """Add a message for each job that exists."""
        ...

    async def list_pending(self, limit: int) -> Sequence[OutboxEntry]:
        """Return the oldest messages."""
        ...

    async def remove(self, entry_ids: Sequence[int]) -> None:
        """Remove messages that were sent."""
        ...


OpenOutbox: TypeAlias = Callable[[], Awaitable[Outbox]]


@dataclass(frozen=True, slots=True)
class TemporalOptions:
    """The Temporal server, and the queues that this daemon serves."""

    config: TemporalConfig
    queues: Mapping[str, Callable[[], int]]
    """The queues that this daemon works on, with the number of phases that it runs at a time."""
    report_unavailable: Callable[[str], None]
    """Called with the reason when the server becomes unavailable."""
    report_connected: Callable[[], None]

    @property
    def queue_prefix(self) -> str:
        """The prefix of the names of all task queues."""
        return self.config.task_queue_prefix


@dataclass(frozen=True, slots=True)
class TemporalDeps:
    """The dependencies of a daemon that runs phases for Temporal."""

    writers: JobWriters
    phases: PhaseDeps
    open_outbox: OpenOutbox
    options: TemporalOptions
    has_messages: asyncio.Event
    """Set when there may be new messages."""
    running: Counter[str]
    """Running phases by task queue."""
