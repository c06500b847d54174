"""Divides the time of the event loop among the requests, so that no work holds up the others for long.

Work that may be much (reading a response, scanning it, beginning a request) is done in small steps. Before each step a
request takes its turn: in one round of the event loop there are turns until 4 ms have passed, then the others wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, zip_longest

from forge_proxy.core.rescue.work import estimate_work
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.ports import Clock

_ROUND_SECONDS = 0.004
"""How long turns are given in one round of the event loop. A step that has begun is done to its end."""
_MOST_GRANTED = 64
"""Turns that are granted in one round at most."""
_BURST_SECONDS = 0.02
"""How long a request may work at one time before it is one of the heavy ones."""
_SHARE = 0.05
"""The share of the time that no request is heavy for: a model that writes as fast as people read takes less."""
_PIECE = 500
"""Characters of text that are scanned at a time: 5 ms of work at the very worst."""
_SPELL = 5_000
"""Microseconds of estimated work from which on a chunk is scanned in pieces."""


class _Place:
    """A place in a queue for the next turn."""

    __slots__ = ("granted",)

    def __init__(self) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Turns:
    """Shared by all requests. Belongs to one event loop.

    While others wait, heavy requests and light ones come in turn, each class in the order of arrival: a small request
    waits for a single step of a heavy one, however many there are of those.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or MonotonicClock()
        self._queues: tuple[deque[_Place], deque[_Place]] = deque(), deque()
        """Light requests, and heavy ones."""
        self._is_running = False
        """Whether `_next_round` is going to be called in the loop's next round."""
        self._ends = float("-inf")
        """When this round has no time left."""
        self._granted = 1
        """Turns that are granted at the beginning of a round: as many as were done in the last one, and more."""
        self._was_done = True
        """Whether a turn was taken in this round."""
        self._was_full = False
        """Whether a turn that was granted in this round came too late for it."""
        self._heavy_first = False

    async def take(self, *, heavy: bool = False) -> None:
        """Wait for the next turn: at once if this round has time left, also for all of this class who wait."""
        queue = self._queues[heavy]
        if (not queue or queue[-1].granted.done()) and self._has_time():
            return
        place = _Place()
        queue.append(place)
        try:
            await place.granted
            while not self._has_time():
                self._was_full = True
                place.granted = asyncio.get_running_loop().create_future()
                await place.granted
        finally:
            queue.remove(place)  # the first one, or near to it

    def _has_time(self) -> bool:
        """Whether one more step may be done in this round. There is always one."""
        now = self._clock.now()
        if now >= self._ends and self._was_done:
            if self._is_running:
                return False
            # The loop went round since the last turns were given: nobody waits, so nothing looks at the time then.
            self._begin_round()
        self._was_done = True
        return True

    def _begin_round(self) -> None:
        self._is_running = True
        self._ends = self._clock.now() + _ROUND_SECONDS
        asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        light, heavy = self._queues
        if not light and not heavy:
            self._is_running = False
            return
        self._granted = max(1, self._granted // 2) if self._was_full else min(_MOST_GRANTED, self._granted * 2)
        self._was_done = self._was_full = False
        first, second = (heavy, light) if self._heavy_first else (light, heavy)
        self._heavy_first = not self._heavy_first
        in_turn = (place for place in chain.from_iterable(zip_longest(first, second)) if place is not None)
        for place in islice(in_turn, self._granted):
            if not place.granted.done():
                place.granted.set_result(None)
        self._begin_round()


class Pace:
    """The turns of one request, which is a heavy one while it works for more than its share of the time."""

    def __init__(self, turns: Turns, clock: Clock | None = None) -> None:
        self._turns = turns
        self._clock: Clock = clock or MonotonicClock()
        self._credit = _BURST_SECONDS
        """Seconds that it may work before it is heavy."""
        self._looked_at = self._began = self._clock.now()

    async def begin_step(self) -> None:
        """Wait for the turn to do the next step."""
        now = self._clock.now()
        self._credit = min(_BURST_SECONDS, self._credit + (now - self._looked_at) * _SHARE)
        self._looked_at = now
        await self._turns.take(heavy=self._credit < 0)
        self._began = self._clock.now()

    def end_step(self) -> None:
        """The step is done, and what follows is waited for."""
        self._credit -= self._clock.now() - self._began


def pieces_of(chunk: Chunk) -> Iterator[Chunk]:
    """The chunk in pieces, each of which is scanned quickly; nearly always the chunk itself."""
    long = [delta for delta in chunk.deltas if delta.text and len(delta.text) > _PIECE]
    if not long or sum(estimate_work(delta.text or "") for delta in long) < _SPELL:
        yield chunk
        return
    last: list[Delta] = []
    anew = chunk.anew
    for delta in chunk.deltas:
        text = delta.text or ""
        end = max(0, len(text) - 1) // _PIECE * _PIECE
        for at in range(0, end, _PIECE):
            piece = Delta(delta.choice, text[at : at + _PIECE], None if at else delta.reasoning)
            yield Chunk((piece,), head=chunk.head, anew=anew)
            anew = False
        last.append(replace(delta, text=text[end:], reasoning=None) if end else delta)
    yield replace(chunk, deltas=tuple(last), anew=anew)
