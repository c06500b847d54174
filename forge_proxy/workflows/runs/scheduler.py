"""Schedules the execution of a daemon's runs, and resumes those that an earlier daemon left unfinished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tenacity import AsyncRetrying, wait_fixed

from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable
from forge_proxy.workflows.cancellation import Cancelled, acquire_cancellable
from forge_proxy.workflows.runs.errors import (
    RunConflict,
    RunNotFound,
    RunNotReadable,
    retry_if_store_may_return,
)
from forge_proxy.workflows.runs.execution import ExecutionDeps, execute_run, store_cancelled
from forge_proxy.workflows.runs.ports import RunStore
from forge_proxy.workflows.runs.records import RunHead, StoredRun
from forge_proxy.workflows.runs.run_writer import RunWriter

T = TypeVar("T")

_RETRY_SECONDS = 1.0
"""Seconds between retries of an unavailable store."""


class RunScheduler:
    """Executes all runs of a daemon, at most `max_running` concurrently.

    `open_store` is entered on first use and exited by `close`; `on_change` is called with the old and the new record of
    a changed run.
    """

    def __init__(
        self,
        open_store: Callable[[], AbstractAsyncContextManager[RunStore]],
        deps: ExecutionDeps,
        max_running: int,
        now: Callable[[], float],
        on_change: Callable[[StoredRun, StoredRun], None],
    ) -> None:
        self._open_store = open_store
        self._deps = deps
        self._now = now
        self._on_change = on_change
        self._slots = asyncio.Semaphore(max_running)
        self._store: RunStore | None = None
        self._closing = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._writers: WeakValueDictionary[str, RunWriter] = WeakValueDictionary()
        self._writer_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def store(self) -> RunStore:
        """Return the store. Opening it resumes unfinished runs. Raises `StoreUnavailable`."""
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    async with AsyncExitStack() as opening:  # if it fails, the lock must not block the next attempt
                        store = await opening.enter_async_context(self._open_store())
                        unfinished = [
                            await store.get(head.id) for head in await store.unfinished() if _can_continue(head)
                        ]
                        self._closing = opening.pop_all()
                    self._store = store
                    for run in unfinished:
                        self._resume(run, store)
        return self._store

    @asynccontextmanager
    async def lock_run(self, run_id: str) -> AsyncGenerator[RunWriter]:
        """Lock a run for a request that reads and then changes it. Raises `StoreUnavailable` and `RunNotFound`."""
        writer = await self._get_writer(run_id)
        async with writer.lock():
            try:
                yield writer
            except StoreUnavailable:
                self._spawn(self._resolve_unknown_write(writer))
                raise

    async def start_if_queued(self, run_id: str) -> None:
        """Start a queued run that no task executes, such as one whose submission failed after it was stored."""
        writer = await self._get_writer(run_id)
        if writer.run.status == "queued" and writer.executions == 0:  # it may have started since it was read
            self.start(writer)

    def start(self, writer: RunWriter) -> None:
        """Start executing a run as soon as `max_running` permits."""
        writer.executions += 1
        self._spawn(self._execute(writer))

    async def run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a store operation, shielded from cancellation by a disconnecting client.

        A cancelled operation would discard its database connection.
        """
        return await asyncio.shield(self._spawn(work))

    def drop_writer(self, run_id: str) -> None:
        """Drop the writer of a deleted run."""
        self._writers.pop(run_id, None)

    async def close(self) -> None:
        """Stop every run where it is: the stored state can be resumed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._closing.aclose()

    def _resume(self, run: StoredRun, store: RunStore) -> None:
        """Resume a run that an earlier daemon left unfinished."""
        try:
            writer = self._writers[run.id] = RunWriter(run, store, self._on_change, self._now)
        except RunNotReadable as error:  # left unchanged: the version that wrote it can resume it
            self._deps.report(run.id, error)
        else:
            self.start(writer)

    async def _resolve_unknown_write(self, writer: RunWriter) -> None:
        """Determine whether a write of unknown outcome was stored, and start the run if it must continue."""
        await asyncio.sleep(_RETRY_SECONDS)
        with suppress(StoreInUse):
            async for attempt in AsyncRetrying(retry=retry_if_store_may_return, wait=wait_fixed(_RETRY_SECONDS)):
                with attempt:
                    async with writer.change_lock:
                        await writer.resolve_outcome()
                        if writer.run.status == "queued" and writer.executions == 0:
                            self.start(writer)

    async def _get_writer(self, run_id: str) -> RunWriter:
        store = await self.store()
        async with self._writer_lock:
            writer = self._writers.get(run_id)
            if writer is None:
                writer = RunWriter(await store.get(run_id), store, self._on_change, self._now)
                self._writers[run_id] = writer
            return writer

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _execute(self, writer: RunWriter) -> None:
        try:
            await self._run_in_slot(writer)
        except (StoreUnavailable, RunConflict, RunNotFound) as error:
            self._deps.report(writer.run.id, error)  # another daemon or a deletion has taken the run
            self._writers.pop(writer.run.id, None)
        finally:
            writer.executions -= 1

    async def _run_in_slot(self, writer: RunWriter) -> None:
        try:
            await acquire_cancellable(self._slots, writer.cancel)
        except Cancelled:
            async with writer.change_lock:
                return await store_cancelled(writer, wait=True)
        try:
            await execute_run(writer, self._deps)
        finally:
            self._slots.release()


def _can_continue(run: RunHead) -> bool:
    """Return whether the daemon can continue an unfinished run without its client."""
    return run.status != "requires_action" or run.cancel_requested
