"""The tail of a program's stderr, which usually explains why it ended. It is not logged: it may contain anything."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TextIO

_MAX_BYTES = 4000
"""Bytes."""
_MAX_CHARS = 300
"""Characters."""


class StderrTail(asyncio.Protocol):
    """Keeps the last bytes of a pipe's output."""

    def __init__(self) -> None:
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._tail = (self._tail + data)[-_MAX_BYTES:]

    @property
    def last_line(self) -> str:
        """The last non-empty line, or "" if there is none."""
        lines = self._tail.decode("utf-8", "replace").split("\n")
        return next((line.strip()[:_MAX_CHARS] for line in reversed(lines) if line.strip()), "")


@asynccontextmanager
async def open_stderr(tail: StderrTail) -> AsyncGenerator[TextIO]:
    """Open a file that a program can use as stderr; its output goes to `tail`."""
    read_end, write_end = os.pipe()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: tail, os.fdopen(read_end, "rb"))
    try:
        with os.fdopen(write_end, "w") as file:
            yield file
    finally:
        transport.close()
