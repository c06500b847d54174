"""A client that costs little: prepared bytes over a persistent connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

_SECONDS = 60.0
_END_OF_CHUNKS = b"0\r\n\r\n"


class Unexpected(Exception):
    """A response that the measurement does not expect."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, with the seconds until its first and its last byte."""

    head: bytes
    body: bytes
    first: float
    last: float


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] | None = None
        self._parts: list[bytes] = []
        self._body_at = -1
        self._left: int | None = None
        self._first = 0.0

    async def ask(self, request: bytes) -> Answer:
        """Send a request and read the whole response. Raises `Unexpected` unless it is a success."""
        assert self._transport
        self._parts, self._body_at, self._left = [], -1, None
        self._done = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        self._transport.write(request)
        async with asyncio.timeout(_SECONDS):
            await self._done
        last = time.perf_counter() - began
        whole = b"".join(self._parts)
        head, body = whole[: self._body_at], whole[self._body_at :]
        if not head.startswith(b"HTTP/1.1 200"):
            raise Unexpected(whole[:500].decode())
        return Answer(head, body, self._first - began, last)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own has no common class with asyncio's

    def data_received(self, data: bytes) -> None:
        if not self._parts:
            self._first = time.perf_counter()
        self._parts.append(data)
        if self._body_at < 0:
            data = self._read_head()
            if self._body_at < 0:
                return
        if self._left is not None:
            self._left -= len(data)
        ended = self._ends_with(_END_OF_CHUNKS) if self._left is None else self._left <= 0
        if ended and self._done and not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done and not self._done.done():
            self._done.set_exception(Unexpected("the connection was closed"))

    def _read_head(self) -> bytes:
        """Return the part of the body that came with the head; set where the body begins once the head is complete."""
        got = b"".join(self._parts)
        end = got.find(b"\r\n\r\n")
        if end < 0:
            return b""
        self._body_at = end + 4
        _, told, length = got[:end].lower().partition(b"\r\ncontent-length:")
        self._left = int(length.partition(b"\r\n")[0]) if told else None
        return got[self._body_at :]

    def _ends_with(self, end: bytes) -> bool:
        return b"".join(self._parts[-len(end) :]).endswith(end)


@asynccontextmanager
async def connections(port: int, count: int) -> AsyncGenerator[list[Connection]]:
    """Open this many connections; close them at the end."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Connection, "127.0.0.1", port) for _ in range(count)]
    try:
        yield [protocol for _, protocol in made]
    finally:
        for transport, _ in made:
            transport.close()
