"""Shares the event loop's time among the requests, so that no work blocks the others for long.

Potentially long work (parsing or scanning a response, preparing a request) is done in small steps. Before each step a
request takes a turn, which may be as long as the round: one iteration of the event loop grants turns until 4 ms have
passed; the other requests wait. Work that cannot be divided into steps runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from itertools import chain, islice, zip_longest
from typing import TypeVar

from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.ports import Clock

_T = TypeVar("_T")

_ROUND_SECONDS = 0.004
"""Time for turns in one iteration of the event loop. A step that has started always finishes."""
_MAX_GRANTED = 64
"""Maximum number of turns granted in one iteration."""
_BURST_SECONDS = 0.02
"""How long a request may work continuously before it counts as heavy."""
_FRESH_SECONDS = 0.005
"""How long a request may work continuously before it counts as light: most requests need less in all."""
_SHARE = 0.05
"""Share of the time below which a request remains fresh: a model that generates at human reading speed needs less."""


class Weight(IntEnum):
    """How much of the event loop's time a request has used lately."""

    FRESH = 0
    LIGHT = 1
    HEAVY = 2


class _Waiter:
    """A request that waits in a queue for its next turn."""

    __slots__ = ("granted",)

    def __init__(self) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class LoopTurns:
    """The queue for turns on one event loop, shared by all requests.

    Fresh, light and heavy requests alternate, each class in order of arrival: a fresh request waits for a single turn
    of a light and of a heavy one, however many of them there are.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or MonotonicClock()
        self._queues: tuple[deque[_Waiter], ...] = tuple(deque() for _ in Weight)
        """The queue of each weight."""
        self.round = 0
        """The number of the current round."""
        self._is_running = False
        """Whether `_next_round` is scheduled for the loop's next iteration."""
        self._ends_at = float("-inf")
        """When the time of this round ends."""
        self._granted = 1
        """Turns granted at the start of a round; adapts to how many fitted into the last one."""
        self._has_stepped = True
        """Whether a step was started in this round."""
        self._has_overrun = False
        """Whether a turn granted in this round found no time left."""
        self._first = Weight.FRESH
        """The weight that the next round begins with."""
        self._thread = ThreadPoolExecutor(1, "forge-long-step")

    async def take(self, weight: Weight = Weight.FRESH) -> None:
        """Wait for the next turn; return immediately if this round has time left for all waiters of this weight."""
        queue = self._queues[weight]
        if (not queue or queue[-1].granted.done()) and self._has_time():
            return
        waiter = _Waiter()
        queue.append(waiter)
        try:
            await waiter.granted
            while not self._has_time():
                self._has_overrun = True
                waiter.granted = asyncio.get_running_loop().create_future()
                await waiter.granted
        finally:
            queue.remove(waiter)  # the first one, or near to it

    async def run_in_thread(self, work: Callable[[], _T]) -> _T:
        """Return the result of work that takes longer than a step should. Raises what it raises.

        There is one thread, because each computing thread delays the event loop by up to 5 ms per iteration: it
        releases the interpreter's lock only so often.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def is_open(self, number: int) -> bool:
        """Return whether the round of this number has time left, so that a turn taken in it may continue."""
        return self._is_running and number == self.round and self._clock.now() < self._ends_at

    def _has_time(self) -> bool:
        """Return whether one more step may start in this round. Every round allows at least one."""
        now = self._clock.now()
        if now >= self._ends_at and self._has_stepped:
            if self._is_running:
                return False
            # The loop has iterated since the last turns: without waiters no `_next_round` restarts the time.
            self._begin_round()
        self._has_stepped = True
        return True

    def _begin_round(self) -> None:
        self._is_running = True
        self.round += 1
        self._ends_at = self._clock.now() + _ROUND_SECONDS
        asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        if not any(self._queues):
            self._is_running = False
            return
        self._granted = max(1, self._granted // 2) if self._has_overrun else min(_MAX_GRANTED, self._granted * 2)
        self._has_stepped = self._has_overrun = False
        queues = (*self._queues[self._first :], *self._queues[: self._first])
        self._first = Weight((self._first + 1) % len(Weight))
        in_turn = (waiter for waiter in chain.from_iterable(zip_longest(*queues)) if waiter is not None)
        for waiter in islice(in_turn, self._granted):
            if not waiter.granted.done():
                waiter.granted.set_result(None)
        self._begin_round()


class Pace:
    """Takes the turns of one request, which gains weight while it works for more than its share of the time."""

    def __init__(self, turns: LoopTurns, clock: Clock | None = None) -> None:
        self._turns = turns
        self._clock: Clock = clock or MonotonicClock()
        self._credit = _BURST_SECONDS
        """Seconds that the request may work before it is heavy."""
        self._updated_at = self._started_at = self._clock.now()
        self._round = -1
        """The round of the latest turn."""

    async def begin_step(self) -> None:
        """Wait for a turn, unless the latest one has time left for the next step."""
        now = self._clock.now()
        self._credit = min(_BURST_SECONDS, self._credit + (now - self._updated_at) * _SHARE)
        self._updated_at = self._started_at = now
        if self._turns.is_open(self._round):  # switching after each step would cost as much as the steps themselves
            return
        await self._turns.take(self._weight)
        self._round, self._started_at = self._turns.round, self._clock.now()

    def end_step(self) -> None:
        """Record that the step is done; the request now waits for something else."""
        self._credit -= self._clock.now() - self._started_at

    @property
    def _weight(self) -> Weight:
        if self._credit < 0:
            return Weight.HEAVY
        return Weight.FRESH if self._credit > _BURST_SECONDS - _FRESH_SECONDS else Weight.LIGHT
