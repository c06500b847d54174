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
_WORK = 2_000
"""Microseconds of work in one piece, by an estimate that is right within a few times."""
_OF_DELTA = 20
"""Microseconds that each delta costs, whatever is in it."""
_BLOCK = 4_000
"""Characters of one text in a piece at most: an estimate may be wrong."""
_SHORTEST = 100
"""Characters of the shortest piece: what each piece costs by itself must not exceed the rest."""


class _Place:
    """A place in a queue for the next turn."""

    __slots__ = ("granted",)

    def __init__(self) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class LoopTurns:
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

    def __init__(self, turns: LoopTurns, clock: Clock | None = None) -> None:
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
    if _is_short(chunk.deltas):
        yield chunk
        return
    piece: list[Delta] = []
    work = 0
    anew = chunk.anew
    for delta in _short_deltas(_merged(chunk.deltas)):
        more = _work_in(delta)
        if piece and work + more > _WORK:
            yield Chunk(tuple(piece), head=chunk.head, anew=anew)
            piece, work, anew = [], 0, False
        piece.append(delta)
        work += more
    yield replace(chunk, deltas=tuple(piece), anew=anew)


def _is_short(deltas: tuple[Delta, ...]) -> bool:
    """Whether no piece need be cut off: cheaper to find out than the work in each delta."""
    texts = [delta.text for delta in deltas if delta.text]
    if len(deltas) == 1 and (not texts or len(texts[0]) <= _SHORTEST):
        return True
    if sum(map(len, texts)) > _BLOCK:
        return False
    return len(deltas) * _OF_DELTA + estimate_work("".join(texts)) <= _WORK


def _work_in(delta: Delta) -> int:
    return _OF_DELTA + (estimate_work(delta.text) if delta.text else 0)


def _merged(deltas: tuple[Delta, ...]) -> Iterator[Delta]:
    """The same deltas, texts that follow each other put together: each delta costs more than most of what is in it."""
    texts: list[str] = []
    choice = 0
    for delta in deltas:
        is_text = bool(delta.text) and delta.reasoning is None and delta.finish is None
        is_text = is_text and not (delta.calls or delta.extra or delta.beside)
        if texts and not (is_text and delta.choice == choice):
            yield Delta(choice, "".join(texts))
            texts = []
        if is_text:
            choice = delta.choice
            texts.append(delta.text or "")
        else:
            yield delta
    if texts:
        yield Delta(choice, "".join(texts))


def _short_deltas(deltas: Iterator[Delta]) -> Iterator[Delta]:
    """The same deltas, those with long texts cut in several."""
    for delta in deltas:
        text = delta.text or ""
        if len(text) <= _BLOCK and _work_in(delta) <= _WORK:
            yield delta
            continue
        *begun, last = _short_texts(text)
        reasoning = delta.reasoning
        for part in begun:
            yield Delta(delta.choice, part, reasoning)
            reasoning = None
        yield replace(delta, text=last, reasoning=reasoning)


def _short_texts(text: str) -> Iterator[str]:
    for begin in range(0, len(text), _BLOCK):
        yield from _halved(text[begin : begin + _BLOCK])


def _halved(text: str) -> Iterator[str]:
    """The text in pieces of no more work than may be in one."""
    if len(text) <= _SHORTEST or estimate_work(text) <= _WORK:
        yield text
        return
    middle = len(text) // 2
    yield from _halved(text[:middle])
    yield from _halved(text[middle:])
