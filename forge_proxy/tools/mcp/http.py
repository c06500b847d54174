"""HTTP transport for MCP sessions that limits response sizes and checks addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import httpx2

from forge_proxy.tools.mcp.output_limits import NotificationLimit, TooMuchOutput, check_values

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the allowed addresses of a host and port. Raises `OSError`."""


class ResponseTruncated(httpx2.StreamError, httpx2.SSEError):
    """A response was truncated. Both base classes, because the package reports either as the error of a single call."""

    def __init__(self, why: str) -> None:
        Exception.__init__(self, why)
        self._request = None


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Connects only to addresses from `resolve`, and limits what is read.

    A response is limited to `limit` bytes, a notification stream to `limit` bytes per minute.
    """

    def __init__(self, limit: int, resolve: Resolve) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)
        self._limit = limit
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.AsyncBaseTransport`."""
        request.headers["Accept-Encoding"] = "identity"
        response = await self._send(request)
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError(f"it sent Content-Encoding {encoding}, which was not requested", request=request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101  # of an asynchronous transport
        is_json = response.headers.get("Content-Type", "").lower().startswith("application/json")
        response.stream = _BoundedStream(
            response.stream, self._limit, is_requested=request.method == "POST", is_json=is_json
        )
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send to the first address that accepts the connection, without resolving the name again."""
        url = request.url
        try:
            addresses = await self._resolve(url.host, url.port or (443 if url.scheme == "https" else 80))
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        fault: httpx2.ConnectError | None = None
        for address in addresses:
            request.url = url.copy_with(host=address)
            if url.scheme == "https":
                request.extensions = {**request.extensions, "sni_hostname": url.host}
            try:
                return await self._inner.handle_async_request(request)
            except httpx2.ConnectError as error:
                fault = error
            finally:
                request.url = url
        raise fault or httpx2.ConnectError("it has no address", request=request)


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of one response."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, *, is_requested: bool, is_json: bool) -> None:
        self._inner = inner
        self._limit = limit
        self._is_requested = is_requested
        self._is_json = is_json

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self._is_json:
                body = b"".join([piece async for piece in self._limited_pieces()])
                check_values(body)
                yield body
                return
            async for piece in self._limited_pieces():
                yield piece
                await asyncio.sleep(0)  # a connection that always has data would starve other tasks
        except TooMuchOutput as error:
            raise ResponseTruncated(str(error)) from error

    async def aclose(self) -> None:
        """See `httpx2.AsyncByteStream`."""
        await self._inner.aclose()

    async def _limited_pieces(self) -> AsyncIterator[bytes]:
        now = asyncio.get_running_loop().time
        notifications, size = NotificationLimit(self._limit), 0
        async for piece in self._inner:
            size += len(piece)
            if not self._is_requested:
                notifications.spend(len(piece), now())
            elif size > self._limit:
                raise TooMuchOutput(f"it sent a response of more than {self._limit // 1024} KB")
            yield piece
