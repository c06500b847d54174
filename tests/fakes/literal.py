"""A model server that answers each request with the same bytes, in the pieces that a test cuts them into."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

JSON, EVENTS = "application/json", "text/event-stream"


@dataclass
class LiteralResponse:
    """`HttpResponse` of these pieces."""

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
        """From now on."""
        self.sent, self.kind, self.status, self.headers = sent, kind, status, headers or {}

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[LiteralResponse]:
        self.open_now += 1
        try:
            yield LiteralResponse(self.status, {"content-type": self.kind, **self.headers}, self.sent)
        finally:
            self.open_now -= 1
