"""A model server that answers each request with the same bytes, in the pieces that a test chooses."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from forge_proxy.backends.http import RequestBody

JSON, EVENTS = "application/json", "text/event-stream"


@dataclass
class LiteralResponse:
    """`HttpResponse` that consists of these pieces."""

    status: int
    headers: Mapping[str, str]
    sent: Sequence[bytes]

    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self.sent:
            yield piece

    async def read(self) -> bytes:
        return b"".join(self.sent)

    async def finish(self) -> None:
        return


@dataclass
class LiteralHttp:
    """`HttpClient` that answers with `sent`; `open_now` counts the answers that have not been closed."""

    sent: Sequence[bytes] = ()
    kind: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    open_now: int = 0

    def says(
        self, sent: Sequence[bytes], kind: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send these pieces from now on."""
        self.sent, self.kind, self.status, self.headers = sent, kind, status, headers or {}

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[LiteralResponse]:
        self.open_now += 1
        try:
            yield LiteralResponse(self.status, {"content-type": self.kind, **self.headers}, self.sent)
        finally:
            self.open_now -= 1


@dataclass
class LiteralTransport(LiteralHttp, httpx2.AsyncBaseTransport):
    """`LiteralHttp` as a transport of httpx2. Requests for a model by its name get another response than `sent`."""

    asked: list[Any] = field(default_factory=list[Any])
    """The bodies of the requests."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith("/v1/models/"):
            return httpx2.Response(404, json={"type": "error", "error": {"type": "not_found_error", "message": "no"}})
        self.asked.append(json.loads(await request.aread() or b"null"))
        self.open_now += 1
        return httpx2.Response(self.status, headers={"content-type": self.kind, **self.headers}, stream=_Pieces(self))


class _Pieces(httpx2.AsyncByteStream):
    def __init__(self, http: LiteralHttp) -> None:
        self._http = http

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._http.sent:
            yield piece

    async def aclose(self) -> None:
        self._http.open_now -= 1
