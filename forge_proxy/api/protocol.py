"""uvicorn's HTTP/1.1 connection with five additions: limits on the size and the duration of heads, errors in OpenAI's
format, no lost bodies after an upgrade offer, and coalesced writes.

Its parser, httptools, buffers a head of any length, and skips the body of a request that offers an upgrade. Java's own
client offers one to HTTP/2 with every first request. Tried with uvicorn 0.38, 0.46 and 0.54.
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
from forge_proxy.api.errors import ErrorEnvelopes, classify
from forge_proxy.api.identity import new_request_id
from forge_proxy.api.write_buffer import CoalescingTransport

_LINGER_SECONDS = 2.0
"""How long to read and drop data after a rejection; an immediate close would discard the response at the client."""
_MAX_HEADERS = 100
"""A limit common in other servers. Each header costs at least a hundred bytes of memory, however short."""
_MAX_PIPELINED = 1000
"""Requests that may wait for the answers to those before them on the same connection."""


def http_protocol(supervisor: ConnectionSupervisor, envelopes: ErrorEnvelopes) -> type[HttpToolsProtocol]:
    """Create the connection class of a server; uvicorn instantiates it."""

    class Limited(HttpConnection):
        pass

    Limited.supervisor = supervisor
    Limited.envelopes = envelopes
    return Limited


class HttpConnection(HttpToolsProtocol):
    """One connection, whose requests are read one after the other."""

    supervisor: ConnectionSupervisor
    envelopes: ErrorEnvelopes
    url = b""
    """The request's target as received so far. The base class sets it when a head begins."""
    _head = 0
    """Bytes of names and values of the head that is being read; what separates them is not counted."""
    _unparsed = 0
    """Bytes that came since the parser last reported a part of that head."""
    _reads = WaitingFor.FIRST_BYTE
    """Which part of a request is read next."""
    _since = 0.0
    """When the head began that is being read, or when something was last read."""
    _refused = False
    _buffered = 0
    """Bytes of responses that are charged to the memory budget."""
    _delivered = 0
    """Bytes that the client had taken when something was last delivered to it."""
    _stalled_since: float | None = None
    """When that was; None if nothing is buffered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A connection begins."""
        self._corked = CoalescingTransport(transport, self.loop)
        super().connection_made(self._corked)
        self._since = self.loop.time()
        if not self.supervisor.has_room(cast("Collection[Connection]", self.connections), self._since):
            self.refuse(TooManyConnections())
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended, and what was buffered is gone."""
        self._count_buffered(0)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Pause writing: the write buffer is above its high-water mark."""
        super().pause_writing()
        self._count_buffered(self._corked.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Resume writing: the client has read most of the buffer."""
        super().resume_writing()
        self._count_buffered(self._corked.get_write_buffer_size())

    def data_received(self, data: bytes) -> None:
        """Parse what has come. The base class would lose what follows the head of an upgrade."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        if self._reads is not WaitingFor.HEAD:
            self._since = self.loop.time()
        pending: list[bytes | memoryview] = [data]
        while pending and not self._refused:
            self._parse(pending)
        if self._reads is WaitingFor.HEAD and self._head + self._unparsed > self.supervisor.limits.head_bytes:
            self.refuse(HeadTooLarge(self.supervisor.limits.head_bytes))

    def _parse(self, pending: list[bytes | memoryview]) -> None:
        """Parse the last piece. What follows an offer of an upgrade is put back, after the same head without it."""
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
            # What a callback raised is the context of the parser's own error.
            limit = error.__context__
            self.refuse(limit if isinstance(limit, AccessDenied) else NotHttp())

    def on_message_begin(self) -> None:
        """A head begins."""
        self._head, self._unparsed, self._reads = 0, 0, WaitingFor.HEAD
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole header, or trailer."""
        self._count(len(name) + len(value))
        if len(self.headers) == _MAX_HEADERS:
            raise TooManyHeaders(_MAX_HEADERS)
        if self._reads is WaitingFor.HEAD:  # trailers are not read, and the request has been passed on
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: the application is called."""
        if len(self.pipeline) == _MAX_PIPELINED:
            raise NotHttp  # of which the client learns by the end of the connection
        self._reads, self._since = WaitingFor.BODY, self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The whole request was read."""
        self._reads = WaitingFor.NEXT_REQUEST
        super().on_message_complete()

    def waiting(self, now: float) -> tuple[WaitingFor, float]:
        """See `connections.Connection`."""
        if self._refused:
            return WaitingFor.REFUSED, self._since
        if (stalled_since := self._look_at_reader(now)) is not None:
            self._since = now
            return WaitingFor.READER, stalled_since
        is_answering = self._is_answering() and self._reads is not WaitingFor.BODY
        if is_answering or self.flow.read_paused:  # the client waits for the daemon
            self._since = now
        return (WaitingFor.RESPONSE if is_answering else self._reads), self._since

    def abort(self) -> None:
        """See `connections.Connection`."""
        self._refused = True
        self.transport.abort()

    def _look_at_reader(self, now: float) -> float | None:
        """Since when nothing of what is buffered was delivered; None if nothing is buffered. What is written meanwhile,
        such as a keep-alive, delivers nothing.
        """
        buffered = self._corked.get_write_buffer_size()
        self._count_buffered(buffered)
        if not buffered:
            self._stalled_since = None
        elif (delivered := self._corked.count_delivered()) != self._delivered or self._stalled_since is None:
            self._delivered, self._stalled_since = delivered, now
        return self._stalled_since

    def _count_buffered(self, size: int) -> None:
        memory, more = self.supervisor.memory, size - self._buffered
        if memory is not None and more:
            self._buffered = size
            memory.add(more) if more > 0 else memory.release(-more)

    def _is_answering(self) -> bool:
        cycle = self.cycle  # uvicorn's type leaves out that there is none at first
        return cycle is not None and not cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _should_upgrade(self) -> bool:
        return True  # to the base class: nothing is done with this head, for it will be read again

    def _count(self, size: int) -> None:
        self._head += size
        self._unparsed = 0
        if self._head > self.supervisor.limits.head_bytes:
            raise HeadTooLarge(self.supervisor.limits.head_bytes)

    def _head_without_upgrade(self) -> bytes:
        """The head that was read, without its offer, which a server is free to ignore; a new parser reads it."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(lines))

    def refuse(self, error: AccessDenied) -> None:
        """Respond with an error without calling the application, and accept no more data."""
        if self._refused:
            return
        self._refused = True
        self._since = self.loop.time()
        self.supervisor.log.warn(type(error).__name__, "refused", error=str(error))
        answers_another = self._is_answering() and self._reads is not WaitingFor.BODY
        if answers_another or (self._reads is WaitingFor.BODY and self.cycle.response_started):
            self.transport.close()  # the error would be read as a part of another response
            return
        classified = classify(error)
        encode = self.envelopes.envelope_for(self.url.partition(b"?")[0].decode("latin-1"))
        body = orjson.dumps(encode(classified))
        head = b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[classified.status] + head % (len(body), new_request_id().encode()) + body)
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)
