"""The one writer of a run: whoever changes a run does it through its keeper, one change after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, repeat
from typing import TypeVar

from forge_proxy.core.jsontypes import write
from forge_proxy.core.workflow.run import RunState
from forge_proxy.workflows.cancellation import Cancelled, take
from forge_proxy.workflows.runs.errors import StoreInUse, StoreUnavailable
from forge_proxy.workflows.runs.ports import RunStore
from forge_proxy.workflows.runs.records import NewEvent, RunEvent, RunStatus, StoredRun
from forge_proxy.workflows.runs.serialization import read_state, write_state

T = TypeVar("T")

_AGAIN_AFTER = (0.5, 1.0, 2.0, 5.0)
"""Seconds after which a patient writer tries again; the last one again and again."""


class RunWriter:
    """Of one run. `run` and `state` are as they are stored; `tell` hears of each change, what was and what is."""

    def __init__(
        self, run: StoredRun, store: RunStore, tell: Callable[[StoredRun, StoredRun], None], now: Callable[[], float]
    ) -> None:
        """Raises `NotReadable`."""
        self.run = run
        self.state = read_state(run.state)
        self.cancel = asyncio.Event()
        """Set once the run is to be cancelled."""
        if run.cancel_requested:
            self.cancel.set()
        self.alone = asyncio.Lock()
        """For those who look at the run, and then change it by what they saw."""
        self.drivers = 0
        """How many tasks drive it: two for a moment, when one has left it to its caller who has already answered."""
        self._writing = asyncio.Lock()
        self._store = store
        self._tell = tell
        self._now = now
        self._unsure = False
        """Whether the last change may or may not have been stored."""
        self._away = asyncio.Event()
        """Set while a patient writer waits for the store."""

    async def settle(self) -> None:
        """Find out what is stored, where that is not known. Raises `StoreUnavailable`."""
        async with self._having(self._writing, patient=False):
            await self._settle(patient=False)

    @asynccontextmanager
    async def changing(self) -> AsyncGenerator[None]:
        """For a request that looks at the run, and then changes it by what it saw. Raises `StoreUnavailable`."""
        async with self._having(self.alone, patient=False):
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
        """Store a change with the events that tell of it, at least one. Raises like `RunStore.save`.

        A `patient` writer waits for a store that cannot be used now: it is further than what is stored, and has nowhere
        else to go.
        """
        async with self._having(self._writing, patient=patient):
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
            told = numbered(events, run.last_event, after.updated_at)
            try:
                await self._trying(lambda: self._store.save(after, run.last_event, told), patient=patient)
            except StoreUnavailable:
                self._unsure = True
                raise
            self.run, self.state = after, state or self.state
        if cancel:
            self.cancel.set()
        self._tell(run, after)

    async def _settle(self, *, patient: bool) -> None:
        if not self._unsure:
            return
        self.run = await self._trying(lambda: self._store.get(self.run.id), patient=patient)
        self.state, self._unsure = read_state(self.run.state), False
        if self.run.cancel_requested:
            self.cancel.set()

    @asynccontextmanager
    async def _having(self, lock: asyncio.Lock, *, patient: bool) -> AsyncGenerator[None]:
        """Have a lock. Who is not patient does not wait for one who waits for the store with it."""
        if patient:
            await lock.acquire()
        else:
            try:
                await take(lock, self._away)
            except Cancelled:
                raise StoreUnavailable("a step of this run has been waiting to be stored") from None
        try:
            yield
        finally:
            lock.release()

    async def _trying(self, work: Callable[[], Awaitable[T]], *, patient: bool) -> T:
        try:
            for seconds in chain(_AGAIN_AFTER, repeat(_AGAIN_AFTER[-1])):
                try:
                    return await work()
                except StoreInUse:
                    raise
                except StoreUnavailable:
                    if not patient:
                        raise
                self._away.set()
                await asyncio.sleep(seconds)
        finally:
            self._away.clear()
        raise AssertionError("it is tried for ever")


def numbered(events: tuple[NewEvent, ...], since: int, at: float) -> list[RunEvent]:
    """Events with the ids that come after `since`."""
    return [RunEvent(number, event.type, write(event.data), at) for number, event in enumerate(events, since + 1)]
