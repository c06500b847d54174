"""Lets other requests have the event loop between pieces of a response that take long to scan.

This belongs in `engine` because it knows the event loop; what may be costly in a text is known to `core.rescue.work`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from forge_proxy.core.rescue.work import estimate_work
from forge_proxy.core.stream import Chunk, Delta

_T = TypeVar("_T")

_SPELL = 0.002
"""Seconds of work after which others come first."""
_CONTENDED_SPELL = 0.0005
"""The same while others wait: many requests may each begin a spell in the same round of the event loop."""
_WORK = 2_000
"""Microseconds of work in one piece, by an estimate that is right within a few times."""
_OF_DELTA = 20
"""Microseconds that each delta costs, whatever is in it."""
_BLOCK = 4_000
"""Characters of one text in a piece at most: an estimate may be wrong."""
_SHORTEST = 100
"""Characters of the shortest piece: what each piece costs by itself must not exceed the rest."""


class Turns:
    """Shared by all requests: of those that have worked for a while, one continues in each round of the event loop.

    `clock` is in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._lock = asyncio.Lock()

    @property
    def is_contended(self) -> bool:
        """Whether a request waits for its turn."""
        return self._lock.locked()

    async def wait(self) -> None:
        """Wait for the next turn."""
        async with self._lock:
            await asyncio.sleep(0)


class Pace:
    """The pace of one attempt: measures its work, and says when it has worked long enough."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._clock = turns.clock
        self._worked = 0.0

    def measure(self, work: Callable[[Chunk], _T], chunk: Chunk) -> _T:
        """Do the work on this chunk."""
        began = self._clock()
        done = work(chunk)
        self._worked += self._clock() - began
        return done

    @property
    def is_over(self) -> bool:
        """Whether others come first now."""
        return self._worked >= _CONTENDED_SPELL and (self._worked >= _SPELL or self._turns.is_contended)

    async def rest(self) -> None:
        """Let others come first."""
        self._worked = 0.0
        await self._turns.wait()


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
