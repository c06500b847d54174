"""A small HTTP client interface, so that the library behind it can be chosen by measurement (docs/decisions/0003).

Adapters use `HttpClient`, which `aiohttp_client.AioHttp` implements. This belongs in `backends` because its errors are
those of a model server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

_MAX_ERROR_BODY = 1024 * 1024

RequestBody: TypeAlias = bytes | Sequence[bytes | memoryview]
"""A request body, as a whole or in pieces."""


class HttpResponse(Protocol):
    """A response whose status and headers have arrived. Header lookup is case-insensitive."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives. Raises `BackendBroke` or `BackendTimeout`."""
        ...

    async def read(self) -> bytes:
        """Read the whole body. Raises the same errors as `pieces`."""
        ...

    async def finish(self) -> None:
        """Read to the end of a body whose content is complete, so that the connection can be reused."""
        ...


class HttpClient(Protocol):
    """An HTTP client. Leaving the context of `open` closes the connection if the body was not read to its end."""

    def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request and wait for the response head. `seconds` bounds the whole exchange.

        Raises `BackendUnreachable`, `BackendTimeout` or `BackendBroke`.
        """
        ...


async def read_capped(response: HttpResponse, limit: int = _MAX_ERROR_BODY) -> bytes:
    """Read at most `limit` bytes of a body: enough for an error message."""
    parts: list[bytes] = []
    size = 0
    async for piece in response.pieces():
        parts.append(piece)
        size += len(piece)
        if size >= limit:
            break
    return b"".join(parts)[:limit]
