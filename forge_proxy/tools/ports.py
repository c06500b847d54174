"""Protocols that tool execution depends on. `backends.aiohttp_client.AioHttp` implements `ToolHttpClient`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.ports import Clock


class ToolHttpResponse(Protocol):
    """A response whose status and headers have arrived. Header names are case-insensitive."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises `BackendFault`."""
        ...


class ToolHttpClient(Protocol):
    """Sends requests without following redirects. Leaving the context closes the connection of an unread response."""

    def open(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AbstractAsyncContextManager[ToolHttpResponse]:
        """Send a request and wait for the response headers. `seconds` limits the whole exchange.

        Raises `BackendFault`.
        """
        ...


class ToolClock(Clock, Protocol):
    """A `Clock` that also has the date and can wait, injected so that tests can simulate it."""

    def time(self) -> float:
        """Return Unix time in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class SystemClock(MonotonicClock):
    """`ToolClock` of the operating system and the event loop."""

    def time(self) -> float:
        """See `ToolClock`."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """See `ToolClock`."""
        await asyncio.sleep(seconds)
