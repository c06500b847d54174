"""The one small door to HTTP, so that the client library can be chosen by measuring (docs/decisions/0003).

`HttpClient` is what adapters ask for; `AioHttp` is it on aiohttp. Transport failures come out as our own errors.
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
from typing import Any, Protocol, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, AbstractStreamWriter
from yarl import URL

from forge_proxy.backends.body_slices import BodySlices, Undecodable
from forge_proxy.core.errors import BackendBroke, BackendTimeout, BackendUnreachable
from forge_proxy.engine.pacing import LoopTurns, Pace

_MAX_ERROR_BODY = 1024 * 1024
_MAX_BODY = 64 * 1024 * 1024
"""Bytes of a body that is read as a whole: a list of models, not an answer."""
_TRIES = 4
"""How often a connection is tried while it is the event loop that is late."""
_STEPS = 50
"""Turns of the event loop that connecting may take: more than twice as many as it does."""
_END_SECONDS = 0.02
_READ_BUFFER = 64 * 1024
"""Bytes of a body that wait to be read; while there are twice as many, the model server has to wait."""
_COMPRESSED = "its answer is compressed in a way that cannot be read; it was asked to send it as it is"
_parsed = lru_cache(URL)


RequestBody: TypeAlias = bytes | Sequence[bytes]
"""A body, whole or in pieces."""


class HttpResponse(Protocol):
    """An answer whose status and headers have arrived. Header names are found however they are spelled."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises `BackendBroke` or `BackendTimeout`."""
        ...

    async def read(self) -> bytes:
        """The whole body. Raises as `pieces`."""
        ...

    async def finish(self) -> None:
        """Let the end of a body arrive whose content is complete, so that the connection can be used again."""
        ...


class HttpClient(Protocol):
    """Sends requests. Leaving the context closes the connection of an answer that was not read to its end."""

    def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send and wait for the answer's head. `seconds` bounds the whole exchange.

        Raises `BackendUnreachable`, `BackendTimeout` or `BackendBroke`.
        """
        ...


_CLOSED_MEANWHILE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


_made_anew: ContextVar[list[bool]] = ContextVar("_made_anew")
"""Of the request that is being sent: filled when a connection is made for it, empty when a kept one is used."""


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    _made_anew.get([]).append(True)
    return socket.socket(*address[:3])  # its family, kind and protocol


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    # A compressed stream would arrive in blocks rather than as it is written.
    headers = {"Accept-Encoding": "identity"}
    # A cookie of one request would be sent with all later ones, of other clients too.
    # aiohttp would unpack as soon as something comes, while others wait.
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=_READ_BUFFER,
    )


class AioHttp:
    """`HttpClient` on aiohttp. Made inside a running event loop; `close` it."""

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
        # llama.cpp closes an idle connection after 5 s: ours are let go before that.
        self._kept = _session(
            aiohttp.TCPConnector(limit=0, keepalive_timeout=4, socket_factory=_new_socket, resolver=resolver)
        )
        self._fresh = _session(aiohttp.TCPConnector(limit=0, force_close=True, resolver=resolver))

    async def close(self) -> None:
        """Close all connections."""
        await self._kept.close()
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
        anew: list[bool] = []
        _made_anew.set(anew)
        ask = partial(
            aiohttp.ClientSession.request,
            method=method,
            url=_parsed(url),
            data=body if body is None or isinstance(body, bytes) else _Pieces(body),
            headers=headers,
            allow_redirects=False,
        )
        try:
            try:
                return await self._connected(partial(ask, self._kept), seconds)
            except _CLOSED_MEANWHILE:
                if anew:
                    raise
                # A kept connection that the server closed just now: nothing was answered, so it is sent once more.
                return await self._connected(partial(ask, self._fresh), seconds)
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as exc:
            raise BackendUnreachable(url, _cause(exc, self._connect)) from exc
        except (aiohttp.ServerTimeoutError, TimeoutError) as exc:
            raise BackendTimeout(url, seconds or self._silence) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise BackendBroke(url, _fault_of(exc) or "it closed the connection without an answer") from exc

    async def _connected(
        self, ask: Callable[..., Awaitable[aiohttp.ClientResponse]], seconds: float | None
    ) -> aiohttp.ClientResponse:
        """Send, and connect again if it was our own event loop that took too long for a connection in time."""
        timeout = self._unbounded if seconds is None else self._timeout(seconds)
        for tries_left in reversed(range(_TRIES)):
            try:
                return await ask(timeout=timeout)
            except aiohttp.ConnectionTimeoutError:
                late = _STEPS * await _turn_seconds()
                if late < self._connect or not tries_left:
                    raise
                timeout = self._timeout(seconds, late)
        raise AssertionError("the last try returns or raises")


class _Pieces(aiohttp.Payload):
    """A body in pieces, which is sent with its length. It may be sent again."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__(pieces, content_type="application/json")
        self._pieces = pieces
        self._size = sum(map(len, pieces))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for piece in self._pieces:
            await writer.write(piece)


class _Exchange(AbstractAsyncContextManager[HttpResponse]):
    """One request and its answer: a class, as a generator takes longer, and this is done for each request."""

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
    """`HttpResponse` on aiohttp. Iterated over, it gives the pieces of its body, each when it is its turn: what is done
    with a piece is done before the next one is asked for, so the turns bound the work on the whole response.

    It looks out for silence itself: aiohttp sets a timer anew for each piece that comes, which takes longer than all
    else that is done with one.
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
        self._timer = self._loop.call_later(silence, self._look)
        if response.connection is not None and response.connection.protocol is not None:
            response.connection.protocol.read_timeout = None

    def close(self) -> None:
        """Give the connection back, or close it where the body was not read to its end."""
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
            raise BackendBroke(self._url, _COMPRESSED) from exc
        await self._pace.begin_step()
        self._is_in_step = True
        return piece

    async def _read(self) -> bytes:
        """What came since the last time, once something has."""
        self._waiting_since = self._loop.time()
        try:
            piece = await self._content.readany()
        except (aiohttp.ClientError, OSError) as exc:  # those of time among them
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
        # Some servers keep the connection open after the last event; waiting for them would hold up our caller.
        with suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(_END_SECONDS):
                while await self._content.readany():
                    pass

    def _look(self) -> None:
        """Close the connection after as long a silence as is allowed; before that, look again when it will be so long.

        While nobody waits for a piece it is our caller who is slow.
        """
        now = self._loop.time()
        left = self._silence - (now - self._waiting_since if self._waiting_since is not None else 0)
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        self._is_silent = True
        self._response.close()


async def _turn_seconds() -> float:
    """How long the event loop takes for one turn at present."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(2):
        await asyncio.sleep(0)
    return (loop.time() - began) / 2


def _fault_of(exc: Exception) -> str | None:
    """What is wrong with an answer; None if it only ended. Never quotes it: its words may be secret."""
    words = str(exc)
    if isinstance(exc, aiohttp.ClientResponseError | ValueError) or "400, message" in words:
        return "what it sent is not HTTP, or its headers are too large"
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
        return os.strerror(fault.errno).lower()  # the event loop's words are of its own calls: "connect call failed"
    return f"no connection within {seconds:g} s"


async def read_capped(response: HttpResponse, limit: int = _MAX_ERROR_BODY) -> bytes:
    """The beginning of a body: an error's words need no more."""
    parts: list[bytes] = []
    size = 0
    async for piece in response.pieces():
        parts.append(piece)
        size += len(piece)
        if size >= limit:
            break
    return b"".join(parts)[:limit]
