"""The only writer of a run. All changes of a run go through its `RunWriter`, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from tenacity import AsyncRetrying, wait_chain, wait_fixed

from forge_proxy.core.jsontypes import write
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.workflow.run import RunState
from forge_proxy.workflows.cancellation import Cancelled, acquire_cancellable
from forge_proxy.workflows.runs.errors import retry_if_store_may_return
from forge_proxy.workflows.runs.ports import RunStore
from forge_proxy.workflows.runs.records import NewEvent, RunEvent, RunStatus, StoredRun
from forge_proxy.workflows.runs.serialization import read_state, write_state

T = TypeVar("T")

_RETRY_WAIT = wait_chain(*map(wait_fixed, (0.5, 1.0, 2.0, 5.0)))
"""Seconds between the retries of a patient writer; the last value repeats."""


class RunWriter:
    """Writes one run. `run` and `state` are as stored; `on_change` is called with the old and the new record."""

    def __init__(
        self,
        run: StoredRun,
        store: RunStore,
        on_change: Callable[[StoredRun, StoredRun], None],
        now: Callable[[], float],
    ) -> None:
        """Raises `RunNotReadable`."""
        self.run = run
        self.state = read_state(run.state)
        self.cancel = asyncio.Event()
        """Set when cancellation is requested."""
        if run.cancel_requested:
            self.cancel.set()
        self.change_lock = asyncio.Lock()
        """Held while a task reads the run and changes it depending on what it read."""
        self.executions = 0
        """Number of tasks that execute the run: briefly two, if the client posts outputs before the first task ends."""
        self._write_lock = asyncio.Lock()
        self._store = store
        self._on_change = on_change
        self._now = now
        self._is_outcome_unknown = False
        """Whether the last change may or may not have been stored."""
        self._store_wait = asyncio.Event()
        """Set while a waiting write waits for the store."""

    async def resolve_outcome(self) -> None:
        """Read the stored run if the outcome of the last write is unknown. Raises `StoreUnavailable`."""
        async with self._acquire(self._write_lock, wait=False):
            await self._resolve_outcome(wait=False)

    @asynccontextmanager
    async def lock(self) -> AsyncGenerator[None]:
        """Lock the run for a request that reads it and then changes it. Raises `StoreUnavailable`."""
        async with self._acquire(self.change_lock, wait=False):
            await self.resolve_outcome()
            yield

    async def write(
        self,
        *events: NewEvent,
        state: RunState | None = None,
        status: RunStatus | None = None,
        outcome: str | None = None,
        cancel: bool = False,
        wait: bool = False,
    ) -> None:
        """Store a change with its events, at least one. Raises like `RunStore.save`.

        With `wait`, waits while the store is unavailable: the run has advanced beyond its stored state, and no client
        could retry.
        """
        async with self._acquire(self._write_lock, wait=wait):
            await self._resolve_outcome(wait=wait)
            run = self.run
            after = replace(
                run,
                status=status or run.status,
                updated_at=self._now(),
                last_event=run.last_event + len(events),
                cancel_requested=run.cancel_requested or cancel,
                state=run.state if state is None else write_state(state),
                outcome=outcome or run.outcome,
            )
            stored_events = number_events(events, run.last_event, after.updated_at)
            try:
                await self._retry(lambda: self._store.save(after, run.last_event, stored_events), wait=wait)
            except StoreUnavailable:
                self._is_outcome_unknown = True
                raise
            self.run, self.state = after, state or self.state
        if cancel:
            self.cancel.set()
        self._on_change(run, after)

    async def _resolve_outcome(self, *, wait: bool) -> None:
        if not self._is_outcome_unknown:
            return
        self.run = await self._retry(lambda: self._store.get(self.run.id), wait=wait)
        self.state, self._is_outcome_unknown = read_state(self.run.state), False
        if self.run.cancel_requested:
            self.cancel.set()

    @asynccontextmanager
    async def _acquire(self, lock: asyncio.Lock, *, wait: bool) -> AsyncGenerator[None]:
        """Hold a lock. Without `wait`, raises `StoreUnavailable` if the holder waits for the store."""
        if wait:
            await lock.acquire()
        else:
            try:
                await acquire_cancellable(lock, self._store_wait)
            except Cancelled:
                raise StoreUnavailable("a step of this run has been waiting to be stored") from None
        try:
            yield
        finally:
            lock.release()

    async def _retry(self, work: Callable[[], Awaitable[T]], *, wait: bool) -> T:
        if not wait:
            return await work()
        retrying = AsyncRetrying(
            retry=retry_if_store_may_return, wait=_RETRY_WAIT, before_sleep=lambda _: self._store_wait.set()
        )
        try:
            async for attempt in retrying:
                with attempt:
                    return await work()
        finally:
            self._store_wait.clear()
        raise AssertionError("unreachable: the retries do not end")


def number_events(events: tuple[NewEvent, ...], since: int, at: float) -> list[RunEvent]:
    """Number events with the ids that follow `since`."""
    return [RunEvent(number, event.type, write(event.data), at) for number, event in enumerate(events, since + 1)]
