"""uvicorn's HTTP/1.1 connection with additions: limits on the size and duration of request heads, errors in the format
of the client API, bodies after an upgrade offer, coalesced writes, and accounting for unread responses.

uvicorn's parser, httptools, buffers a head of any length, and skips the body of a request that offers an upgrade.
The HTTP client of Java offers one to HTTP/2 with every first request. Tested with uvicorn 0.38, 0.46 and 0.54.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import cast

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from forge_proxy.api.access_denied import AccessDenied, HeadTooLarge, NotHttp, TooManyConnections, TooManyHeaders
from forge_proxy.api.connections import Connection, ConnectionSupervisor, WaitingFor
from forge_proxy.api.error_responses import ErrorEnvelopes
from forge_proxy.api.errors import classify
from forge_proxy.api.identity import new_request_id
from forge_proxy.api.write_buffer import CoalescingTransport

_LINGER_SECONDS = 2.0
"""How long to read and drop data after a rejection; an immediate close would discard the response at the client."""
_MAX_HEADERS = 100
"""A limit common in other servers. Each header costs at least a hundred bytes of memory, however short."""
_MAX_PIPELINED = 1000
"""Requests that may wait for the responses to earlier ones on the same connection."""


def http_protocol(supervisor: ConnectionSupervisor, envelopes: ErrorEnvelopes) -> type[HttpToolsProtocol]:
    """Create the connection class of a server; uvicorn instantiates it."""

    class Limited(HttpConnection):
        pass

    Limited.supervisor = supervisor
    Limited.envelopes = envelopes
    return Limited


class HttpConnection(HttpToolsProtocol):
    """One client connection. Its requests are read one after the other."""

    supervisor: ConnectionSupervisor
    envelopes: ErrorEnvelopes
    url = b""
    """The request's target as received so far. The base class sets it when a head begins."""
    _head = 0
    """Bytes of the names and values of the head that is being read, without separators."""
    _unparsed = 0
    """Bytes received since the parser last reported a part of that head."""
    _reads = WaitingFor.FIRST_BYTE
    """The part of a request that is read next."""
    _since = 0.0
    """When the head that is being read began, or when data was last received."""
    _is_refused = False
    _buffered = 0
    """Bytes of responses that are charged to the memory budget."""
    _delivered = 0
    """Bytes that the client had received at the last progress."""
    _stalled_since: float | None = None
    """The time of the last progress; None if nothing is buffered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Set up the connection, or refuse it if there are too many."""
        self._output = CoalescingTransport(transport, self.loop)
        super().connection_made(self._output)
        self._since = self.loop.time()
        if not self.supervisor.has_room(cast("Collection[Connection]", self.connections), self._since):
            self.refuse(TooManyConnections())
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the memory of the buffered response."""
        self._count_buffered(0)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Pause writing: the write buffer is above its high-water mark."""
        super().pause_writing()
        self._count_buffered(self._output.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Resume writing: the client has read most of the buffer."""
        super().resume_writing()
        self._count_buffered(self._output.get_write_buffer_size())

    def data_received(self, data: bytes) -> None:
        """Parse received data. The base class would lose what follows the head of an upgrade."""
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        if self._reads is WaitingFor.NEXT_REQUEST:  # line breaks alone do not begin a request
            self._reads = WaitingFor.FIRST_BYTE
        if self._reads is not WaitingFor.HEAD:
            self._since = self.loop.time()
        pending: list[bytes | memoryview] = [data]
        while pending and not self._is_refused:
            self._parse(pending)
        if self._reads is WaitingFor.HEAD and self._head + self._unparsed > self.supervisor.limits.head_bytes:
            self.refuse(HeadTooLarge(self.supervisor.limits.head_bytes))

    def _parse(self, pending: list[bytes | memoryview]) -> None:
        """Parse the last piece. Data after an upgrade offer is put back, after the same head without it."""
        data = pending.pop()
        self._unparsed += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self.parser.get_method() == b"CONNECT":
                self.refuse(NotHttp())
            else:
                pending += [memoryview(data)[upgrade.args[0] :], self._head_without_upgrade()]
        except httptools.HttpParserError as error:
            # An error raised by a callback is the context of the parser's own error.
            limit = error.__context__
            self.refuse(limit if isinstance(limit, AccessDenied) else NotHttp())

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._head, self._unparsed, self._reads = 0, 0, WaitingFor.HEAD
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count a part of the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Check and keep a header; drop a trailer."""
        self._count(len(name) + len(value))
        if len(self.headers) == _MAX_HEADERS:
            raise TooManyHeaders(_MAX_HEADERS)
        if self._reads is WaitingFor.HEAD:  # otherwise a trailer, after the request was passed on
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Call the application: the head is complete."""
        if len(self.pipeline) == _MAX_PIPELINED:
            raise NotHttp  # the connection is closed without a response
        self._reads, self._since = WaitingFor.BODY, self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next request: this one is complete."""
        self._reads = WaitingFor.NEXT_REQUEST
        super().on_message_complete()

    def waiting(self, now: float) -> tuple[WaitingFor, float]:
        """See `connections.Connection`."""
        if self._is_refused:
            return WaitingFor.REFUSED, self._since
        if (stalled_since := self._check_reader(now)) is not None:
            self._since = now
            return WaitingFor.READER, stalled_since
        is_answering = self._is_answering() and self._reads is not WaitingFor.BODY
        if is_answering or self.flow.read_paused:  # the client waits for the daemon
            self._since = now
        return (WaitingFor.RESPONSE if is_answering else self._reads), self._since

    def abort(self) -> None:
        """See `connections.Connection`."""
        self._is_refused = True
        self.transport.abort()

    def _check_reader(self, now: float) -> float | None:
        """Return since when the client has received nothing of the buffered data; None if nothing is buffered.

        Data that is written meanwhile, such as a keep-alive, is not progress.
        """
        buffered = self._output.get_write_buffer_size()
        self._count_buffered(buffered)
        if not buffered:
            self._stalled_since = None
        elif (delivered := self._output.count_delivered()) != self._delivered or self._stalled_since is None:
            self._delivered, self._stalled_since = delivered, now
        return self._stalled_since

    def _count_buffered(self, size: int) -> None:
        memory, more = self.supervisor.memory, size - self._buffered
        if memory is not None and more:
            self._buffered = size
            memory.add(more) if more > 0 else memory.release(-more)

    def _is_answering(self) -> bool:
        cycle = self.cycle  # uvicorn's type omits that there is none at first
        return cycle is not None and not cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _should_upgrade(self) -> bool:
        return True  # makes the base class ignore this head, which is read again

    def _count(self, size: int) -> None:
        self._head += size
        self._unparsed = 0
        if self._head > self.supervisor.limits.head_bytes:
            raise HeadTooLarge(self.supervisor.limits.head_bytes)

    def _head_without_upgrade(self) -> bytes:
        """Return the parsed head without its upgrade offer, which may be ignored, and create a new parser for it."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(lines))

    def refuse(self, error: AccessDenied) -> None:
        """Respond with an error without calling the application, and accept no more data."""
        if self._is_refused:
            return
        self._is_refused = True
        self._since = self.loop.time()
        self.supervisor.log.warn(type(error).__name__, "refused", error=str(error))
        is_other_response = self._is_answering() and self._reads is not WaitingFor.BODY
        if is_other_response or (self._reads is WaitingFor.BODY and self.cycle.response_started):
            self.transport.close()  # the error would be read as a part of another response
            return
        classified = classify(error)
        encode = self.envelopes.envelope_for(self.url.partition(b"?")[0].decode("latin-1"))
        body = orjson.dumps(encode(classified))
        fields = {"content-type": "application/json", "x-request-id": new_request_id(), **classified.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode("latin-1")
        end = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[classified.status] + head + end + body)
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)
