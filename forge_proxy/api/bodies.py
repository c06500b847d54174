"""Reading large request bodies: how much there is in one is found out before it is parsed, and in slices.

A parser makes some sixty bytes and a stop of the event loop out of each empty list, so a body is refused by the number
of its values; the number of its bytes says little.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.wire.clients.chat_completions.request import read_body, read_large_body

LARGE = 256 * 1024
"""Bytes of a body from which on it is counted, waits for memory, and is parsed in turn."""
SLICED = 1024 * 1024
"""Bytes of a body from which on it is parsed, and written for the model server, in slices."""
MAX_VALUES = 250_000
"""JSON values in one large body. A conversation that fills a window of a million tokens has a tenth of that."""
_SLICE = 128 * 1024
_STRINGS_SLICE = 16 * 1024
"""As above, where strings are told from the rest, which takes a hundred times as long."""
_SENT_SLICE = 256 * 1024
_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\Z)', re.DOTALL)
"""Strings with their end, which may lie beyond what is looked at."""


class BodyMeasure(NamedTuple):
    """What a body holds, as far as matters for the memory that its parsed form needs."""

    values: int
    """At least so many; exact up to `MAX_VALUES`, and a little too large for short bodies."""
    is_wide: bool
    """Whether a string in it may need four bytes for each character."""


async def read_whole(receive: Receive) -> bytes | bytearray:
    """The whole body of a request. Raises `ClientDisconnect`."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def find_contents(body: bytes | bytearray) -> BodyMeasure:
    """Look through a body in slices, between which others have the event loop."""
    separators, is_wide = 0, False
    for at in range(0, len(body), _SLICE):
        piece = body[at : at + _SLICE]
        separators += _count_separators(piece)
        is_wide = is_wide or not piece.isascii() or b"\\u" in piece
        await asyncio.sleep(0)
    if separators > MAX_VALUES:  # those in strings are counted too, and a long text has many
        separators = await count_outside_strings(body, MAX_VALUES)
    return BodyMeasure(separators, is_wide)


def _count_separators(piece: bytes | bytearray) -> int:
    """The commas and opening brackets: as many or more than there are values."""
    return piece.count(b",") + piece.count(b"[") + piece.count(b"{")


async def count_outside_strings(body: bytes | bytearray, most: int) -> int:
    """The same, strings left out, in slices. Stops beyond `most`."""
    count, at, in_string = 0, 0, False
    while at < len(body) and count <= most:
        piece = body[at : at + _STRINGS_SLICE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # not in the middle of an escape
            piece = body[at : at + _STRINGS_SLICE + 1]
        at += len(piece)
        if in_string:
            rest = _STRING_REST.match(piece)
            piece = piece[rest.end() :] if rest else piece
            in_string = not piece
            piece = piece[1:]
        outside, strings = _STRINGS.subn(rb"\1", piece)
        in_string = in_string or outside.count(b'"') < strings
        count += _count_separators(outside)
        await asyncio.sleep(0)
    return count


class LargeBodies:
    """Parses large bodies one after the other; those of more than a megabyte in slices, between which others have the
    event loop.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def parse(self, pieces: list[bytes | bytearray]) -> JsonObject:
        """The JSON object of the one piece, which is taken out and not kept. Raises `InvalidRequest`."""
        async with self._turn:
            if len(pieces[0]) <= SLICED:
                return read_body(pieces.pop())
            slices = read_large_body(pieces.pop())
            while True:
                try:
                    next(slices)
                except StopIteration as done:
                    return done.value
                await asyncio.sleep(0)


class LargeResponse(Response):
    """A whole response that is sent in slices, and counted until the last of them has been taken by a slow client.

    It counts from the beginning: if it is not sent after all, `discard` it.
    """

    def __init__(self, body: bytes, headers: Mapping[str, str], memory: MemoryBudget) -> None:
        super().__init__(None, headers={**headers, "content-length": str(len(body))}, media_type="application/json")
        self._content = body
        self._memory = memory
        self._counted = len(body)
        memory.add(self._counted)

    def discard(self) -> None:
        """Count it no longer."""
        self._memory.release(self._counted)
        self._counted = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `Response`. The server waits before each slice until the client has taken most of those before it."""
        content, size = self._content, len(self._content)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, size, _SENT_SLICE):
                body = content[at : at + _SENT_SLICE]
                await send({"type": "http.response.body", "body": body, "more_body": at + _SENT_SLICE < size})
        finally:
            self.discard()
