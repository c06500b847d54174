"""The end of what a program writes to stderr: why it ended, most often. None of it is logged; it may quote anything."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TextIO

_KEPT = 4000
"""Bytes."""
_SHOWN = 300
"""Characters."""


class StderrTail(asyncio.Protocol):
    """Keeps the end of what comes out of a pipe."""

    def __init__(self) -> None:
        self._kept = b""

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._kept = (self._kept + data)[-_KEPT:]

    @property
    def last(self) -> str:
        """The last line; empty where there was none."""
        lines = self._kept.decode("utf-8", "replace").split("\n")
        return next((line.strip()[:_SHOWN] for line in reversed(lines) if line.strip()), "")


@asynccontextmanager
async def opened_stderr(words: StderrTail) -> AsyncGenerator[TextIO]:
    """A file to give to a program as its stderr; what it writes comes to `words`."""
    reading, writing = os.pipe()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: words, os.fdopen(reading, "rb"))
    try:
        with os.fdopen(writing, "w") as file:
            yield file
    finally:
        transport.close()
