"""The only writer of a run: all changes of a run go through its `RunWriter`, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from tenacity import AsyncRetrying, wait_chain, wait_fixed

from forge_proxy.core.jsontypes import write
from forge_proxy.core.workflow.run import RunState
from forge_proxy.workflows.cancellation import Cancelled, take
from forge_proxy.workflows.runs.errors import StoreUnavailable, retry_if_store_may_return
from forge_proxy.workflows.runs.ports import RunStore
from forge_proxy.workflows.runs.records import NewEvent, RunEvent, RunStatus, StoredRun
from forge_proxy.workflows.runs.serialization import read_state, write_state

T = TypeVar("T")

_RETRY_WAIT = wait_chain(*map(wait_fixed, (0.5, 1.0, 2.0, 5.0)))
"""Seconds between the retries of a patient writer; the last value repeats."""


class RunWriter:
    """Writes one run. `run` and `state` are as stored; `tell` is called with the old and the new record."""

    def __init__(
        self, run: StoredRun, store: RunStore, tell: Callable[[StoredRun, StoredRun], None], now: Callable[[], float]
    ) -> None:
        """Raises `NotReadable`."""
        self.run = run
        self.state = read_state(run.state)
        self.cancel = asyncio.Event()
        """Set when cancellation is requested."""
        if run.cancel_requested:
            self.cancel.set()
        self.alone = asyncio.Lock()
        """Held while a task reads the run and changes it depending on what it read."""
        self.drivers = 0
        """Number of tasks that execute the run: briefly two, if the client posts outputs before the first task ends."""
        self._writing = asyncio.Lock()
        self._store = store
        self._tell = tell
        self._now = now
        self._is_outcome_unknown = False
        """Whether the last change may or may not have been stored."""
        self._store_wait = asyncio.Event()
        """Set while a patient writer waits for the store."""

    async def settle(self) -> None:
        """Read the stored run if the outcome of the last write is unknown. Raises `StoreUnavailable`."""
        async with self._holding(self._writing, patient=False):
            await self._settle(patient=False)

    @asynccontextmanager
    async def changing(self) -> AsyncGenerator[None]:
        """Lock the run for a request that reads it and then changes it. Raises `StoreUnavailable`."""
        async with self._holding(self.alone, patient=False):
            await self.settle()
            yield

    async def write(
        self,
        *events: NewEvent,
        state: RunState | None = None,
        status: RunStatus | None = None,
        outcome: str | None = None,
        cancel: bool = False,
        patient: bool = False,
    ) -> None:
        """Store a change with its events, at least one. Raises like `RunStore.save`.

        A `patient` writer waits for an unavailable store: the run has advanced beyond its stored state, and no client
        could retry.
        """
        async with self._holding(self._writing, patient=patient):
            await self._settle(patient=patient)
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
            stored_events = numbered(events, run.last_event, after.updated_at)
            try:
                await self._retrying(lambda: self._store.save(after, run.last_event, stored_events), patient=patient)
            except StoreUnavailable:
                self._is_outcome_unknown = True
                raise
            self.run, self.state = after, state or self.state
        if cancel:
            self.cancel.set()
        self._tell(run, after)

    async def _settle(self, *, patient: bool) -> None:
        if not self._is_outcome_unknown:
            return
        self.run = await self._retrying(lambda: self._store.get(self.run.id), patient=patient)
        self.state, self._is_outcome_unknown = read_state(self.run.state), False
        if self.run.cancel_requested:
            self.cancel.set()

    @asynccontextmanager
    async def _holding(self, lock: asyncio.Lock, *, patient: bool) -> AsyncGenerator[None]:
        """Hold a lock. An impatient writer does not wait while the holder waits for the store."""
        if patient:
            await lock.acquire()
        else:
            try:
                await take(lock, self._store_wait)
            except Cancelled:
                raise StoreUnavailable("a step of this run has been waiting to be stored") from None
        try:
            yield
        finally:
            lock.release()

    async def _retrying(self, work: Callable[[], Awaitable[T]], *, patient: bool) -> T:
        if not patient:
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


def numbered(events: tuple[NewEvent, ...], since: int, at: float) -> list[RunEvent]:
    """Number events with the ids that follow `since`."""
    return [RunEvent(number, event.type, write(event.data), at) for number, event in enumerate(events, since + 1)]
