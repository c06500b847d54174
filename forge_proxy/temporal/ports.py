"""What the Temporal scheduler needs from the store besides jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from forge_proxy.core.jobs.records import OutboxEntry, OutboxSignal


class Outbox(Protocol):
    """Messages about jobs that still have to be sent to Temporal. Every method raises `StoreUnavailable`.

    The store adds one in the transaction that creates a job or makes a waiting job `queued`.
    """

    async def add(self, job_ids: Sequence[str], signal: OutboxSignal) -> None:
        """Add a message for each job that exists."""
        ...

    async def pending(self, limit: int) -> Sequence[OutboxEntry]:
        """Return the oldest messages."""
        ...

    async def remove(self, entry_ids: Sequence[int]) -> None:
        """Remove messages that were sent."""
        ...


OpenOutbox: TypeAlias = Callable[[], Awaitable[Outbox]]
