"""Reads large request bodies without blocking the event loop: measures them before they are parsed, in slices.

For each value, even an empty list, parsing takes some sixty bytes of memory and blocks the event loop for some time,
so bodies are limited by the number of their values; their size says little.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.wire.clients.body import read_body, read_large_body
from forge_proxy.wire.large_json import write_slices

LARGE = 256 * 1024
"""Bytes above which a body is measured, waits for memory, and is parsed one at a time."""
SLICED = 1024 * 1024
"""Bytes above which a body is parsed, and serialized for the model server, in slices."""
MAX_VALUES = 250_000
"""Maximum JSON values of a large body. A conversation that fills a window of a million tokens has a tenth of them."""
_T = TypeVar("_T")
_SLICE = 128 * 1024
_STRINGS_SLICE = 16 * 1024
"""Smaller if strings are skipped, which takes a hundred times as long."""
_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\Z)', re.DOTALL)
"""Strings with their closing quote, which may lie beyond the slice."""


class BodyMeasure(NamedTuple):
    """The properties of a body that determine the memory of its parsed form."""

    values: int
    """An upper bound of the number of JSON values; the count stops beyond `MAX_VALUES`."""
    is_wide: bool
    """Whether a string may need four bytes for each character."""


async def read_whole(receive: Receive) -> bytes | bytearray:
    """Read the whole body of a request. Raises `ClientDisconnect`."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def measure_body(body: bytes | bytearray) -> BodyMeasure:
    """Measure a body in slices; the event loop runs other tasks between them."""
    separators, is_wide = 0, False
    for at in range(0, len(body), _SLICE):
        piece = body[at : at + _SLICE]
        separators += _count_separators(piece)
        is_wide = is_wide or not piece.isascii() or b"\\u" in piece
        await asyncio.sleep(0)
    if separators > MAX_VALUES:  # separators in strings are counted too, and a long text has many
        separators = await count_outside_strings(body, MAX_VALUES)
    return BodyMeasure(separators, is_wide)


def _count_separators(piece: bytes | bytearray) -> int:
    """Count commas and opening brackets, which are at least as many as there are values."""
    return piece.count(b",") + piece.count(b"[") + piece.count(b"{")


async def count_outside_strings(body: bytes | bytearray, most: int) -> int:
    """Count the separators that are not in strings, in slices. Stops beyond `most`."""
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
    """Parses large bodies one at a time; those above `SLICED` in slices, between which other tasks run."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def parse(self, pieces: list[bytes | bytearray]) -> JsonObject:
        """Parse the only piece, and remove it from the list so that it is freed. Raises `InvalidRequest`."""
        async with self._turn:
            if len(pieces[0]) <= SLICED:
                return read_body(pieces.pop())
            return await run_slices(read_large_body(pieces.pop()))

    async def convert(self, size: int, convert: Callable[[], _T]) -> _T:
        """Convert `size` bytes of JSON between formats, in a thread if there are many. Returns the result of `convert`.

        Threads run one at a time, because each of them competes with the event loop for the interpreter lock.
        """
        if size <= LARGE:
            return convert()
        async with self._turn:
            return await asyncio.to_thread(convert)


async def run_slices(slices: Generator[None, None, _T]) -> _T:
    """Return the result of a generator; the event loop runs other tasks at each `yield`."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value
        await asyncio.sleep(0)


def collect_slices(value: Json) -> Generator[None, None, list[bytes]]:
    """Serialize a value in slices; yields between them. Returns the pieces."""
    pieces: list[bytes] = []
    for piece in write_slices(value):
        pieces.append(piece)
        yield
    return pieces
