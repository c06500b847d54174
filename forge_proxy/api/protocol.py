"""uvicorn's HTTP/1.1 connection with four things put right: a limit on heads, errors in our shape, no lost bodies, and
writes that leave together.

Its parser, httptools, buffers a head of any length, and skips the body of a request that offers an upgrade. Java's own
client offers one to HTTP/2 with every first request. Tried with uvicorn 0.38, 0.46 and 0.54.
"""

from __future__ import annotations

import asyncio

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from forge_proxy.api.cork import Corked
from forge_proxy.api.errors import render
from forge_proxy.api.identity import new_request_id
from forge_proxy.api.refusals import HeadTooLarge, NotHttp, Refused

_LINGER_SECONDS = 2.0
"""How long what a refused client still sends is read and dropped; closing at once would take the answer from it."""


def http_protocol(max_head: int) -> type[HttpToolsProtocol]:
    """The connection class for heads of at most that many bytes: uvicorn makes the connections itself."""

    class Limited(HttpConnection):
        limit = max_head

    return Limited


class HttpConnection(HttpToolsProtocol):
    """One connection, whose requests are read one after the other."""

    limit: int
    _head = 0
    """Bytes of names and values of the head that is being read; what separates them is not counted."""
    _unparsed = 0
    """Bytes that came since the parser last reported a part of that head."""
    _in_head = True
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A connection begins."""
        super().connection_made(Corked(transport, self.loop))

    def data_received(self, data: bytes) -> None:
        """Parse what has come. The base class would lose what follows the head of an upgrade."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        self._unparsed += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(HeadTooLarge(self.limit) if self._head > self.limit else NotHttp())
        else:
            if self._in_head and self._head + self._unparsed > self.limit:
                self._refuse(HeadTooLarge(self.limit))

    def on_message_begin(self) -> None:
        """A head begins."""
        self._head, self._unparsed, self._in_head = 0, 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: the application is called."""
        self._in_head = False
        super().on_headers_complete()

    def _should_upgrade(self) -> bool:
        return True  # to the base class: nothing is done with this head, for it will be read again

    def _count(self, size: int) -> None:
        self._head += size
        self._unparsed = 0
        if self._head > self.limit:
            raise HeadTooLarge(self.limit)

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Read the head once more without its offer, which a server is free to ignore; then the body is read too."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(NotHttp())
            return
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        version = self.parser.get_http_version().encode()
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(lines))
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(head + rest)

    def _refuse(self, error: Refused) -> None:
        """Answer without the application, and take nothing more."""
        self._refused = True
        self.logger.warning("refused: %s", error)
        under_way = self.cycle  # uvicorn's type leaves out that there is none at first
        if under_way is not None and under_way.response_started and not under_way.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            self.transport.close()  # our words in the middle of another answer would be taken for a part of it
            return
        rendered = render(error)
        body = orjson.dumps(rendered.body)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[rendered.status] + head % (len(body), new_request_id().encode()) + body)
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)
