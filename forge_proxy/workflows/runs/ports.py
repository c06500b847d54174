"""The store that stored runs require."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from forge_proxy.workflows.runs.records import RunEvent, RunHead, RunStatus, StoredRun


@dataclass(frozen=True, slots=True)
class IdempotencyClaim:
    """A client's `Idempotency-Key`, and a digest of the submission it was sent with."""

    key: str
    digest: str


class RunStore(Protocol):
    """Stores runs and their events. One daemon uses it at a time. Every method raises `StoreUnavailable`."""

    async def create(self, run: StoredRun, events: Sequence[RunEvent], claim: IdempotencyClaim | None) -> StoredRun:
        """Store a new run and return it; if the key of `claim` was used before, return the run stored with it.

        Raises `RunConflict` if that run's submission was different.
        """
        ...

    async def get(self, run_id: str) -> StoredRun:
        """Return a run. Raises `RunNotFound`."""
        ...

    async def head(self, run_id: str) -> RunHead:
        """Return the list fields of a run. Raises `RunNotFound`."""
        ...

    async def list(self, *, before: str | None, limit: int, status: RunStatus | None) -> Sequence[RunHead]:
        """Return runs, newest first; with `before` only those older than that run."""
        ...

    async def unfinished(self) -> Sequence[RunHead]:
        """Return the runs without a final status, oldest first."""
        ...

    async def save(self, run: StoredRun, since: int, events: Sequence[RunEvent]) -> None:
        """Store a changed run and its new events atomically.

        `since` is the id of the last stored event. The call may be repeated if its outcome is unknown. Raises
        `RunNotFound`, or `RunConflict` if another writer has changed the run.
        """
        ...

    async def events(self, run_id: str, *, after: int, limit: int) -> Sequence[RunEvent]:
        """Return up to `limit` events with ids greater than `after`, in order."""
        ...

    async def delete(self, run_id: str) -> None:
        """Delete a run and its events. Raises `RunNotFound`."""
        ...
