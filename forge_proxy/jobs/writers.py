"""The store of a daemon's jobs, and the writers of those that it works on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeAlias
from weakref import WeakValueDictionary

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable
from forge_proxy.jobs import retries
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.ports import JobStore, OpenJobStore
from forge_proxy.jobs.writer import JobWriter

OnOpen: TypeAlias = Callable[[JobStore], Awaitable[Callable[[], None]]]
"""Is called with the store before anything else uses it. The function that it returns is called once the store can be
used.
"""
OnChange: TypeAlias = Callable[[StoredJob, StoredJob], None]
"""Is called with the old and the new record of a changed job."""


class JobWriters:
    """Opens the store on first use; `close` closes it. Each job has one writer."""

    def __init__(self, open_store: OpenJobStore, now: Callable[[], float], *, is_shared: bool = False) -> None:
        """`is_shared`: whether other daemons use the store too."""
        self._is_shared = is_shared
        self._open_store = open_store
        self._now = now
        self._on_open: list[OnOpen] = []
        self._on_change: list[OnChange] = []
        self._store: JobStore | None = None
        self._opening = asyncio.Lock()
        self._closing = AsyncExitStack()
        self._writers: WeakValueDictionary[str, JobWriter] = WeakValueDictionary()
        self._writer_lock = asyncio.Lock()
        self._tasks = BackgroundTasks()

    def subscribe(self, on_change: OnChange, on_open: OnOpen | None = None) -> None:
        """Call `on_open` when the store is opened, and `on_change` after each stored change of a job."""
        self._on_change.append(on_change)
        if on_open is not None:
            self._on_open.append(on_open)

    @property
    def store_if_open(self) -> JobStore | None:
        """The store, or None if nothing has opened it yet."""
        return self._store

    async def store(self) -> JobStore:
        """Return the store. Raises `StoreUnavailable`."""
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    async with AsyncExitStack() as opening:  # if it fails, the lock must not block the next attempt
                        store = await opening.enter_async_context(self._open_store())
                        continuations = [await on_open(store) for on_open in self._on_open]
                        self._closing = opening.pop_all()
                    self._store = store
                    for continuation in continuations:
                        continuation()
        return self._store

    async def get(self, job_id: str) -> JobWriter:
        """Return the writer of a job. Raises `StoreUnavailable`, `JobNotFound` and `JobNotReadable`."""
        store = await self.store()
        async with self._writer_lock:
            writer = self._writers.get(job_id)
            if writer is None:
                writer = await JobWriter.open(await store.get(job_id), store, self._report_change, self._now)
                self._writers[job_id] = writer
            return writer

    @asynccontextmanager
    async def lock(self, job_id: str) -> AsyncGenerator[JobWriter]:
        """Lock a job for a request that reads and then changes it. Raises like `get`."""
        writer = await self.get(job_id)
        async with writer.lock():
            if self._is_shared:
                await writer.refresh()
            try:
                yield writer
            except StoreUnavailable:
                self._tasks.spawn(_resolve_outcome(writer))
                raise

    def drop(self, job_id: str) -> None:
        """Drop the writer of a job that was deleted or is written by another daemon."""
        self._writers.pop(job_id, None)

    async def close(self) -> None:
        """Close the store."""
        await self._tasks.close()
        await self._closing.aclose()

    def _report_change(self, before: StoredJob, after: StoredJob) -> None:
        for on_change in self._on_change:
            on_change(before, after)


async def _resolve_outcome(writer: JobWriter) -> None:
    """Determine whether a write of unknown outcome was stored: what depends on it must continue."""
    await asyncio.sleep(retries.RETRY_SECONDS)
    with suppress(StoreInUse, JobNotFound):
        async for attempt in retries.retry_until_store_returns():
            with attempt:
                await writer.resolve_outcome()
