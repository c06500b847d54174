"""The only writer of a job. All changes of a job go through its `JobWriter`, one at a time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Self, TypedDict, TypeVar, Unpack

from tenacity import AsyncRetrying

from forge_proxy.core.jobs.actions import StoredAction, read_action
from forge_proxy.core.jobs.packed_text import list_digests, pack, unpack
from forge_proxy.core.jobs.records import Document, JobEvent, JobStatus, NewEvent, StoredJob
from forge_proxy.core.jsontypes import write
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.jobs.cancellation import Cancelled, acquire_cancellable
from forge_proxy.jobs.ports import JobChange, JobStore, NewRow
from forge_proxy.jobs.retries import STORE_RETRY_WAIT, retry_if_store_may_return

T = TypeVar("T")


class JobFields(TypedDict, total=False):
    """Fields of a job that a write may change."""

    status: JobStatus
    action: str
    outcome: str | None
    wake_at: float | None
    cancel_requested: bool
    wake_requested: bool


@dataclass(frozen=True, slots=True)
class StagedChange:
    """Changes that a phase stores together with the action that it returns."""

    events: tuple[NewEvent, ...] = ()
    state: str | None = None
    outcome: str | None = None
    documents: tuple[Document, ...] = ()


class JobWriter:
    """Writes one job. `job` and `state` are as stored; `on_change` is called with the old and the new record."""

    def __init__(
        self,
        job: StoredJob,
        state: str,
        store: JobStore,
        on_change: Callable[[StoredJob, StoredJob], None],
        now: Callable[[], float],
    ) -> None:
        self.job = job
        self.state = state
        """The kind's own state, not packed."""
        self.cancel = asyncio.Event()
        """Set when cancellation is requested."""
        if job.cancel_requested:
            self.cancel.set()
        self.change_lock = asyncio.Lock()
        """Held while a task reads the job and changes it depending on what it read."""
        self.executions = 0
        """Number of tasks that execute the job in this process."""
        self.is_woken = False
        """Whether what the job waits for may have happened since its execution last looked."""
        self._staged = StagedChange()
        self._write_lock = asyncio.Lock()
        self._store = store
        self._on_change = on_change
        self._now = now
        self._is_outcome_unknown = False
        """Whether the last change may or may not have been stored."""
        self._store_wait = asyncio.Event()
        """Set while a waiting write waits for the store."""

    @classmethod
    async def open(
        cls,
        job: StoredJob,
        store: JobStore,
        on_change: Callable[[StoredJob, StoredJob], None],
        now: Callable[[], float],
    ) -> Self:
        """Return the writer of a stored job. Raises `StoreUnavailable` and `JobNotReadable`."""
        return cls(job, await read_state(store, job), store, on_change, now)

    @property
    def action(self) -> StoredAction:
        """The next action of the job. Raises `JobNotReadable`."""
        return read_action(self.job.action)

    def stage(
        self,
        *events: NewEvent,
        state: str | None = None,
        outcome: str | None = None,
        documents: Sequence[Document] = (),
    ) -> None:
        """Keep a change until the phase has returned its action, with which it is stored."""
        staged = self._staged
        self._staged = StagedChange(
            (*staged.events, *events), state or staged.state, outcome or staged.outcome, (*staged.documents, *documents)
        )

    def take_staged(self) -> StagedChange:
        """Return the staged change, and stage nothing."""
        staged, self._staged = self._staged, StagedChange()
        return staged

    async def resolve_outcome(self) -> None:
        """Read the stored job if the outcome of the last write is unknown. Raises `StoreUnavailable`."""
        async with self._acquire(self._write_lock, wait=False):
            await self._resolve_outcome(wait=False)

    async def refresh(self) -> None:
        """Read the stored job: another daemon may have changed it. Raises `StoreUnavailable` and `JobNotFound`."""
        async with self._acquire(self._write_lock, wait=False):
            self._is_outcome_unknown = True
            await self._resolve_outcome(wait=False)

    @asynccontextmanager
    async def lock(self) -> AsyncGenerator[None]:
        """Lock the job for a request that reads it and then changes it. Raises `StoreUnavailable`."""
        async with self._acquire(self.change_lock, wait=False):
            await self.resolve_outcome()
            yield

    async def write(
        self,
        *events: NewEvent,
        state: str | None = None,
        documents: Sequence[Document] = (),
        children: Sequence[NewRow] = (),
        wait: bool = False,
        **fields: Unpack[JobFields],
    ) -> None:
        """Store a change with its events, at least one. Raises like `JobStore.save`.

        With `wait`, waits while the store is unavailable: the job has advanced beyond its stored state, and no client
        could retry.
        """
        async with self._acquire(self._write_lock, wait=wait):
            await self._resolve_outcome(wait=wait)
            before = self.job
            change = self._build_change(events, state, documents, children, fields)
            try:
                await self._retry(lambda: self._store.save(change), wait=wait)
            except StoreUnavailable:
                self._is_outcome_unknown = True
                raise
            self.job, self.state = change.job, self.state if state is None else state
        if self.job.cancel_requested:
            self.cancel.set()
        self._on_change(before, change.job)

    def _build_change(
        self,
        events: Sequence[NewEvent],
        state: str | None,
        documents: Sequence[Document],
        children: Sequence[NewRow],
        fields: JobFields,
    ) -> JobChange:
        job, now = self.job, self._now()
        change_id = secrets.token_hex(8)
        after = replace(job, updated_at=now, last_event=job.last_event + len(events), change_id=change_id, **fields)
        stored = number_events(events, job.last_event, now)
        if state is None:
            return JobChange(after, job.last_event, stored, documents, children=children)
        packed, had = pack(state), list_digests(job.state)
        added = [part for part in packed.parts if part.digest not in had]
        kept = {part.digest for part in packed.parts}
        dropped = [digest for digest in had if digest not in kept]
        after = replace(after, state=packed.text)
        return JobChange(after, job.last_event, stored, documents, added, dropped, children)

    async def _resolve_outcome(self, *, wait: bool) -> None:
        if not self._is_outcome_unknown:
            return
        before = self.job
        self.job, self.state = await self._retry(self._read, wait=wait)
        self._is_outcome_unknown = False
        if self.job.cancel_requested:
            self.cancel.set()
        if self.job != before:
            self._on_change(before, self.job)

    async def _read(self) -> tuple[StoredJob, str]:
        job = await self._store.get(self.job.id)
        return job, await read_state(self._store, job)

    @asynccontextmanager
    async def _acquire(self, lock: asyncio.Lock, *, wait: bool) -> AsyncGenerator[None]:
        """Hold a lock. Without `wait`, raises `StoreUnavailable` if the holder waits for the store."""
        if wait:
            await lock.acquire()
        else:
            try:
                await acquire_cancellable(lock, self._store_wait)
            except Cancelled:
                raise StoreUnavailable("a step of this job has been waiting to be stored") from None
        try:
            yield
        finally:
            lock.release()

    async def _retry(self, work: Callable[[], Awaitable[T]], *, wait: bool) -> T:
        if not wait:
            return await work()
        retrying = AsyncRetrying(
            retry=retry_if_store_may_return, wait=STORE_RETRY_WAIT, before_sleep=lambda _: self._store_wait.set()
        )
        try:
            async for attempt in retrying:
                with attempt:
                    return await work()
        finally:
            self._store_wait.clear()
        raise AssertionError("unreachable: the retries do not end")


async def read_state(store: JobStore, job: StoredJob) -> str:
    """Return a job's own state, not packed. Raises `StoreUnavailable` and `JobNotReadable`."""
    digests = list_digests(job.state)
    return unpack(job.state, await store.read_documents(digests)) if digests else job.state


def number_events(events: Sequence[NewEvent], since: int, at: float) -> list[JobEvent]:
    """Number events with the ids that follow `since`."""
    return [JobEvent(number, event.type, write(event.data), at) for number, event in enumerate(events, since + 1)]
