"""The store of a daemon's jobs, and the writers of those that it works on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from weakref import WeakValueDictionary

from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.jobs.ports import JobStore, OpenJobStore
from forge_proxy.jobs.writer import JobWriter


class JobWriters:
    """Opens the store on first use. Each job has one writer.

    `on_open` reads what it needs from the store before anybody else uses it, and returns what is called next.
    `on_change` is called with the old and the new record of a changed job.
    """

    def __init__(
        self,
        open_store: OpenJobStore,
        now: Callable[[], float],
        on_open: Callable[[JobStore], Awaitable[Callable[[], None]]],
        on_change: Callable[[StoredJob, StoredJob], None],
    ) -> None:
        self._open_store = open_store
        self._now = now
        self._on_open = on_open
        self._on_change = on_change
        self._store: JobStore | None = None
        self._opening = asyncio.Lock()
        self._closing = AsyncExitStack()
        self._writers: WeakValueDictionary[str, JobWriter] = WeakValueDictionary()
        self._writer_lock = asyncio.Lock()

    async def store(self) -> JobStore:
        """Return the store. Raises `StoreUnavailable`."""
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    async with AsyncExitStack() as opening:  # if it fails, the lock must not block the next attempt
                        store = await opening.enter_async_context(self._open_store())
                        continue_jobs = await self._on_open(store)
                        self._closing = opening.pop_all()
                    self._store = store
                    continue_jobs()
        return self._store

    async def get(self, job_id: str) -> JobWriter:
        """Return the writer of a job. Raises `StoreUnavailable`, `JobNotFound` and `JobNotReadable`."""
        store = await self.store()
        async with self._writer_lock:
            writer = self._writers.get(job_id)
            if writer is None:
                writer = await JobWriter.open(await store.get(job_id), store, self._on_change, self._now)
                self._writers[job_id] = writer
            return writer

    def drop(self, job_id: str) -> None:
        """Drop the writer of a job that was deleted or is written by another daemon."""
        self._writers.pop(job_id, None)

    async def close(self) -> None:
        """Close the store."""
        await self._closing.aclose()
