"""Shares the event loop's time among the requests, so that no work blocks the others for long.

Potentially long work (parsing or scanning a response, preparing a request) is done in small steps. Before each step a
request takes a turn: one iteration of the event loop grants turns until 4 ms have passed; the other requests wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, zip_longest

from forge_proxy.core.rescue import estimate_parse_time
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.ports import Clock

_ROUND_SECONDS = 0.004
"""Time for turns in one iteration of the event loop. A step that has started always finishes."""
_MAX_GRANTED = 64
"""Maximum number of turns granted in one iteration."""
_BURST_SECONDS = 0.02
"""How long a request may work continuously before it counts as heavy."""
_SHARE = 0.05
"""Share of the time below which no request is heavy: a model that generates at human reading speed needs less."""
_MAX_PIECE_WORK = 2_000
"""Microseconds of work in one piece, by an estimate that is accurate within a small factor."""
_DELTA_WORK = 20
"""Microseconds that each delta costs, whatever it contains."""
_MAX_PIECE_CHARS = 4_000
"""Maximum number of characters of one text in a piece, since the estimate may be wrong."""
_MIN_PIECE_CHARS = 100
"""Characters of the shortest piece: the fixed cost of a piece must not exceed the cost of its content."""


class _Waiter:
    """A request that waits in a queue for its next turn."""

    __slots__ = ("granted",)

    def __init__(self) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class LoopTurns:
    """The queue for turns on one event loop, shared by all requests.

    Heavy and light requests alternate, each class in order of arrival: a light request waits for a single step of a
    heavy one, however many heavy ones there are.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or MonotonicClock()
        self._queues: tuple[deque[_Waiter], deque[_Waiter]] = deque(), deque()
        """The queues of light requests and of heavy ones."""
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
        self._heavy_first = False

    async def take(self, *, heavy: bool = False) -> None:
        """Wait for the next turn; return immediately if this round has time left for all waiters of this class."""
        queue = self._queues[heavy]
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
        self._ends_at = self._clock.now() + _ROUND_SECONDS
        asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        light, heavy = self._queues
        if not light and not heavy:
            self._is_running = False
            return
        self._granted = max(1, self._granted // 2) if self._has_overrun else min(_MAX_GRANTED, self._granted * 2)
        self._has_stepped = self._has_overrun = False
        first, second = (heavy, light) if self._heavy_first else (light, heavy)
        self._heavy_first = not self._heavy_first
        in_turn = (waiter for waiter in chain.from_iterable(zip_longest(first, second)) if waiter is not None)
        for waiter in islice(in_turn, self._granted):
            if not waiter.granted.done():
                waiter.granted.set_result(None)
        self._begin_round()


class Pace:
    """Takes the turns of one request, which is heavy while it works for more than its share of the time."""

    def __init__(self, turns: LoopTurns, clock: Clock | None = None) -> None:
        self._turns = turns
        self._clock: Clock = clock or MonotonicClock()
        self._credit = _BURST_SECONDS
        """Seconds that the request may work before it is heavy."""
        self._updated_at = self._started_at = self._clock.now()

    async def begin_step(self) -> None:
        """Wait for the turn of the next step."""
        now = self._clock.now()
        self._credit = min(_BURST_SECONDS, self._credit + (now - self._updated_at) * _SHARE)
        self._updated_at = now
        await self._turns.take(heavy=self._credit < 0)
        self._started_at = self._clock.now()

    def end_step(self) -> None:
        """Record that the step is done; the request now waits for something else."""
        self._credit -= self._clock.now() - self._started_at


def pieces_of(chunk: Chunk) -> Iterator[Chunk]:
    """Split a chunk into pieces that are each scanned quickly; nearly always yields the chunk itself."""
    if _is_short(chunk.deltas):
        yield chunk
        return
    piece: list[Delta] = []
    work = 0
    anew = chunk.anew
    for delta in _split_deltas(_merge_texts(chunk.deltas)):
        more = _work_in(delta)
        if piece and work + more > _MAX_PIECE_WORK:
            yield Chunk(tuple(piece), head=chunk.head, anew=anew)
            piece, work, anew = [], 0, False
        piece.append(delta)
        work += more
    yield replace(chunk, deltas=tuple(piece), anew=anew)


def _is_short(deltas: tuple[Delta, ...]) -> bool:
    """Return whether the chunk need not be split; cheaper than estimating the work of each delta."""
    texts = [delta.text for delta in deltas if delta.text]
    if len(deltas) == 1 and (not texts or len(texts[0]) <= _MIN_PIECE_CHARS):
        return True
    if sum(map(len, texts)) > _MAX_PIECE_CHARS:
        return False
    return len(deltas) * _DELTA_WORK + estimate_parse_time("".join(texts)) <= _MAX_PIECE_WORK


def _work_in(delta: Delta) -> int:
    return _DELTA_WORK + (estimate_parse_time(delta.text) if delta.text else 0)


def _merge_texts(deltas: tuple[Delta, ...]) -> Iterator[Delta]:
    """Merge the texts of consecutive deltas: a delta itself costs more than most of its content."""
    texts: list[str] = []
    choice = 0
    for delta in deltas:
        is_text = bool(delta.text) and delta.reasoning is None and delta.finish is None
        is_text = is_text and not (delta.calls or delta.extra or delta.choice_fields)
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


def _split_deltas(deltas: Iterator[Delta]) -> Iterator[Delta]:
    """Split deltas with long texts into several."""
    for delta in deltas:
        text = delta.text or ""
        if len(text) <= _MAX_PIECE_CHARS and _work_in(delta) <= _MAX_PIECE_WORK:
            yield delta
            continue
        *begun, last = _split_text(text)
        reasoning = delta.reasoning
        for part in begun:
            yield Delta(delta.choice, part, reasoning)
            reasoning = None
        yield replace(delta, text=last, reasoning=reasoning)


def _split_text(text: str) -> Iterator[str]:
    for begin in range(0, len(text), _MAX_PIECE_CHARS):
        yield from _halve(text[begin : begin + _MAX_PIECE_CHARS])


def _halve(text: str) -> Iterator[str]:
    """Split a text into pieces of at most `_MAX_PIECE_WORK` microseconds."""
    if len(text) <= _MIN_PIECE_CHARS or estimate_parse_time(text) <= _MAX_PIECE_WORK:
        yield text
        return
    middle = len(text) // 2
    yield from _halve(text[:middle])
    yield from _halve(text[middle:])
