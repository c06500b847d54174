"""Lets other requests have the event loop between pieces of a response that take long to scan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from forge_proxy.core.rescue.work import estimate_work
from forge_proxy.core.stream import Chunk, Delta

_PIECE = 500
"""Characters of text that are scanned at a time: 5 ms of work at the very worst."""
_SPELL = 5_000
"""Microseconds of work after which others come first."""
_OF_CHUNK = 20
"""Microseconds that each chunk costs."""


class Turns:
    """Shared by all requests: of those that have scanned for a while, one continues in each round of the event loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Wait for the next turn."""
        async with self._lock:
            await asyncio.sleep(0)


class Pace:
    """The pace of one attempt."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._worked = 0

    async def keep(self, chunk: Chunk) -> None:
        """Let others come first if this attempt has worked long enough; `chunk` is what it has scanned just now."""
        self._worked += _OF_CHUNK + sum(estimate_work(delta.text) for delta in chunk.deltas if delta.text)
        if self._worked >= _SPELL:
            self._worked = 0
            await self._turns.wait()


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
