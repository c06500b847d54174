"""The HTTP client of model servers and tools, on aiohttp: `backends.http.HttpClient`.

Transport failures become errors of `core.errors`. This belongs in `backends` because it opens connections.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, AbstractStreamWriter
from yarl import URL

from forge_proxy.backends.body_slices import BodySlices, Undecodable
from forge_proxy.backends.http import HttpResponse, RequestBody
from forge_proxy.core.backend_errors import BackendBroke, BackendTimeout, BackendUnreachable
from forge_proxy.engine.pacing import LoopTurns, Pace

_MAX_BODY = 64 * 1024 * 1024
"""Maximum bytes of a body that is read as a whole, such as a model list; completions are read in pieces."""
_TRIES = 4
"""Connection attempts if the event loop, not the server, causes the timeout."""
_STEPS = 50
"""Event loop turns allowed for connecting: more than twice what it takes."""
_END_SECONDS = 0.02
_READ_BUFFER = 64 * 1024
"""Read buffer in bytes; at twice as many, the client stops reading from the model server."""
_parsed = lru_cache(URL)
_CLOSED_MEANWHILE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


_new_connections: ContextVar[list[bool]] = ContextVar("_new_connections")
"""Non-empty if a new connection was new_connections for the current request; empty if a pooled one was reused."""


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    _new_connections.get([]).append(True)
    return socket.socket(*address[:3])  # its family, kind and protocol


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    # A compressed stream would arrive in blocks instead of token by token.
    headers = {"Accept-Encoding": "identity"}
    # A cookie of one request would be sent with all later ones, of other clients too.
    # aiohttp would decompress on arrival and block the event loop for other requests.
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=_READ_BUFFER,
    )


class AioHttp:
    """`HttpClient` on aiohttp. Create it inside a running event loop and `close` it."""

    def __init__(
        self,
        *,
        connect_seconds: float,
        silence_seconds: float,
        resolver: AbstractResolver | None = None,
        turns: LoopTurns | None = None,
    ) -> None:
        """`resolver` looks up hosts; by default the operating system does. Bodies are read in `turns`."""
        self._turns = turns or LoopTurns()
        self._connect = connect_seconds
        self._silence = silence_seconds
        self._unbounded = self._timeout(None)
        # llama.cpp closes idle connections after 5 s: close them earlier.
        self._pooled = _session(
            aiohttp.TCPConnector(limit=0, keepalive_timeout=4, socket_factory=_new_socket, resolver=resolver)
        )
        self._fresh = _session(aiohttp.TCPConnector(limit=0, force_close=True, resolver=resolver))

    async def close(self) -> None:
        """Close all connections."""
        await self._pooled.close()
        await self._fresh.close()

    def _timeout(self, seconds: float | None, more: float = 0) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=seconds, sock_connect=self._connect + more, sock_read=self._silence)

    def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """See `HttpClient.open`."""
        return _Exchange(self._send(method, url, body, headers or {}, seconds), url, self._silence, self._turns)

    async def _send(
        self, method: str, url: str, body: RequestBody | None, headers: Mapping[str, str], seconds: float | None
    ) -> aiohttp.ClientResponse:
        new_connections: list[bool] = []
        _new_connections.set(new_connections)
        send = partial(
            aiohttp.ClientSession.request,
            method=method,
            url=_parsed(url),
            data=body if body is None or isinstance(body, bytes) else _Pieces(body),
            headers=headers,
            allow_redirects=False,
        )
        try:
            try:
                return await self._try_request(partial(send, self._pooled), seconds)
            except _CLOSED_MEANWHILE:
                if new_connections:
                    raise
                # The server closed a pooled connection before it responded: send the request again.
                return await self._try_request(partial(send, self._fresh), seconds)
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as exc:
            raise BackendUnreachable(url, _cause(exc, self._connect)) from exc
        except (aiohttp.ServerTimeoutError, TimeoutError) as exc:
            raise BackendTimeout(url, seconds or self._silence) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise BackendBroke(url, _fault_of(exc) or "it closed the connection without a response") from exc

    async def _try_request(
        self, send: Callable[..., Awaitable[aiohttp.ClientResponse]], seconds: float | None
    ) -> aiohttp.ClientResponse:
        """Send the request; connect again if the daemon's own event loop caused the connection timeout."""
        timeout = self._unbounded if seconds is None else self._timeout(seconds)
        for tries_left in reversed(range(_TRIES)):
            try:
                return await send(timeout=timeout)
            except aiohttp.ConnectionTimeoutError:
                late = _STEPS * await _turn_seconds()
                if late < self._connect or not tries_left:
                    raise
                timeout = self._timeout(seconds, late)
        raise AssertionError("the last try returns or raises")


class _Pieces(aiohttp.Payload):
    """A request body in pieces, sent with its Content-Length. It can be sent more than once."""

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        super().__init__(pieces, content_type="application/json")
        self._pieces = pieces
        self._size = sum(map(len, pieces))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for piece in self._pieces:
            await writer.write(piece)


class _Exchange(AbstractAsyncContextManager[HttpResponse]):
    """One request and its response. A class because a generator-based context is slower, for every request."""

    def __init__(
        self, sending: Coroutine[None, None, aiohttp.ClientResponse], url: str, silence: float, turns: LoopTurns
    ) -> None:
        self._sending = sending
        self._turns = turns
        self._url = url
        self._silence = silence
        self._response: _Response | None = None

    async def __aenter__(self) -> HttpResponse:
        self._response = _Response(await self._sending, self._url, self._silence, self._turns)
        return self._response

    async def __aexit__(self, *_: object) -> None:
        if self._response is not None:
            self._response.close()


class _Response:
    """`HttpResponse` on aiohttp. Iteration yields the pieces of the body, each in its turn of `LoopTurns`: the consumer
    processes a piece before it requests the next one, so the turns bound the work on the whole response.

    It has its own silence timer: aiohttp resets a timer for each piece, which costs more than all other work on a
    piece.
    """

    def __init__(self, response: aiohttp.ClientResponse, url: str, silence: float, turns: LoopTurns) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._content = response.content
        self._slices = BodySlices(response.headers.get("content-encoding", ""))
        self._pace = Pace(turns)
        self._is_in_step = False
        self._url = url
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        self._is_silent = False
        self._timer = self._loop.call_later(silence, self._check_silence)
        if response.connection is not None and response.connection.protocol is not None:
            response.connection.protocol.read_timeout = None

    def close(self) -> None:
        """Return the connection to the pool, or close it if the body was not read to its end."""
        self._timer.cancel()
        self._response.close()

    def pieces(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._is_in_step:
            self._is_in_step = False
            self._pace.end_step()
        try:
            while not (piece := self._slices.next()):
                self._slices.add(await self._read())
        except Undecodable as exc:
            raise BackendBroke(self._url, str(exc)) from exc
        except StopAsyncIteration:
            await self._pace.begin_step()  # a body that is one JSON object is parsed at its end
            raise
        await self._pace.begin_step()
        self._is_in_step = True
        return piece

    async def _read(self) -> bytes:
        """Wait for data and return all that has arrived."""
        self._waiting_since = self._loop.time()
        try:
            piece = await self._content.readany()
        except (aiohttp.ClientError, OSError) as exc:  # includes timeouts
            if self._is_silent or isinstance(exc, TimeoutError):
                raise BackendTimeout(self._url, self._silence) from exc
            raise BackendBroke(self._url, _fault_of(exc) or "the connection was closed in the middle") from exc
        self._waiting_since = None
        if not piece:
            raise StopAsyncIteration
        return piece

    async def read(self) -> bytes:
        body = bytearray()
        async for piece in self:
            body += piece
            if len(body) > _MAX_BODY:
                raise BackendBroke(self._url, f"a body of more than {_MAX_BODY} bytes")
        return bytes(body)

    async def finish(self) -> None:
        if self._content.is_eof():
            return
        # Some servers keep the connection open after the last event; waiting for its end would delay the request.
        with suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(_END_SECONDS):
                while await self._content.readany():
                    pass

    def _check_silence(self) -> None:
        """Close the connection if the silence limit has passed; otherwise check again when it will have passed.

        While no read is pending, the caller is slow, not the server.
        """
        now = self._loop.time()
        remaining = self._silence - (now - self._waiting_since if self._waiting_since is not None else 0)
        if remaining > 0:
            self._timer = self._loop.call_later(remaining, self._check_silence)
            return
        self._is_silent = True
        self._response.close()


async def _turn_seconds() -> float:
    """Measure the current duration of one event loop turn, in seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(2):
        await asyncio.sleep(0)
    return (loop.time() - began) / 2


def _fault_of(exc: Exception) -> str | None:
    """Describe a malformed response; None if it only ended early. Never quotes it: it may contain secrets."""
    words = str(exc)
    if "Not enough data" in words:  # TransferEncodingError or ContentLengthError, as the cause or in the message only
        return None
    if isinstance(exc, aiohttp.ClientResponseError | ValueError) or "400, message" in words:
        return "its response is not HTTP, or its headers are too large"
    return None


def _cause(exc: Exception, seconds: float) -> str:
    if isinstance(exc, aiohttp.ClientConnectorError):
        fault = exc.os_error
        if isinstance(fault, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(fault):
            return "it speaks http and not https"
        if isinstance(fault, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {fault.verify_message}; SSL_CERT_FILE names the file to trust"
        if fault.errno is None or isinstance(fault, socket.gaierror | ssl.SSLError):
            return (fault.strerror or str(fault)).lower()
        return os.strerror(fault.errno).lower()  # the event loop's message names its own calls: "connect call failed"
    return f"no connection within {seconds:g} s"
