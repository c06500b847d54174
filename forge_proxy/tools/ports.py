"""What executing tools needs from outside, said by it. `backends.http.AioHttp` fits the first by its shape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from forge_proxy.engine.clock import MonotonicClock


class HttpResponse(Protocol):
    """An answer whose status and headers have arrived. Header names are found however they are spelled."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises `BackendFault`."""
        ...


class HttpClient(Protocol):
    """Sends requests and follows no redirect. Leaving the context closes the connection of an answer that was not
    read to its end.
    """

    def open(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send and wait for the answer's head. `seconds` bounds the whole exchange. Raises `BackendFault`."""
        ...


class Clock(Protocol):
    """Time, handed in so that tests need not wait for it."""

    def now(self) -> float:
        """Seconds from some fixed moment."""
        ...

    def time(self) -> float:
        """Seconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        ...


class SystemClock(MonotonicClock):
    """`Clock` by the operating system and the event loop."""

    def time(self) -> float:
        """See `Clock`."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        await asyncio.sleep(seconds)
