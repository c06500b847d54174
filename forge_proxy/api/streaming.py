"""Send a streamed response over ASGI, for every client API. Its `StreamEncoder` writes the bytes.

The headers leave with the first event, or after `server.first_event_seconds`; an error before that has its own status.
Keep-alives fill silences; after an error, the stream has no clean end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.disconnect import cancel_on_disconnect
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.errors import classify
from forge_proxy.api.large_responses import send_body
from forge_proxy.api.outcome_headers import compaction_headers, headers_as_text, outcome_headers
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.answer import AnswerEvent
from forge_proxy.engine.events import ContextCompacted
from forge_proxy.wire.clients.errors import ClassifiedError


class StreamEncoder(Protocol):
    """Encodes one streamed response in the format of a client API. Pure; `wire/clients` has one for each API.

    Each method returns the bytes to send next; an empty result sends nothing.
    """

    @property
    def media_type(self) -> str:
        """The content type of the stream."""
        ...

    def write(self, chunk: Chunk) -> bytes:
        """Encode a chunk. Prompt progress (`chunk.progress`) is encoded only if the client requested it."""
        ...

    def comment(self, text: str) -> bytes:
        """Encode a line that clients ignore; empty if the format has no comments."""
        ...

    def keepalive(self) -> bytes:
        """Encode an event that adds nothing to the response and that clients count as progress."""
        ...

    def finish(self, report: Report) -> bytes:
        """Encode the end of a complete response."""
        ...

    def error(self, error: ClassifiedError) -> bytes:
        """Encode an error that ends the stream, with `server.stream_errors: event`."""
        ...


@dataclass(frozen=True, slots=True)
class StreamErrorPolicy:
    """How the streams of a client API report errors."""

    has_event: bool = False
    """Whether the API ends a failed response with an event, which is sent whatever `server.stream_errors` is."""
    codes: frozenset[str] = frozenset()
    """Codes of errors that clients read only from such an event: they never have a status of their own."""
    agents: tuple[str, ...] = ()
    """Beginnings of the user agents of clients that give up at a 429, but wait and retry if an event reports it."""

    def begins_stream(self, error: ClassifiedError, scope: Scope) -> bool:
        """Whether an error that ends a request before its first event is reported by an event, with status 200."""
        if error.status == 429 and self.agents:
            return Headers(scope=scope).get("user-agent", "").startswith(self.agents)
        return error.code in self.codes


class StreamingAnswer(Response):
    """An engine's response, sent as a stream."""

    def __init__(
        self,
        answer: AsyncGenerator[AnswerEvent],
        encoder: StreamEncoder,
        config: ServerConfig,
        headers: Mapping[str, str],
        errors: StreamErrorPolicy = StreamErrorPolicy(),
        before_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`before_end` is awaited before the end of a complete response is encoded."""
        super().__init__(media_type=encoder.media_type, headers={"cache-control": "no-cache", **headers})
        del self.headers["content-length"]
        self._answer = answer
        self._encoder = encoder
        self._config = config
        self._extra_headers = headers
        self._errors = errors
        self._before_end = before_end
        self._started = False
        self._sent_at = 0.0
        self._is_sending = False
        self._compactions: list[ContextCompacted] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream the response until it ends or the client disconnects."""
        try:
            async with cancel_on_disconnect(receive), self._keep_alive_during(send):
                await self._run(send)
        except ForgeError as error:
            classified = classify(error)
            if not self._started and not self._errors.begins_stream(classified, scope):
                self._started = True
                await error_response(error, scope, self._extra_headers)(scope, receive, send)
            elif self._errors.has_event or self._config.stream_errors == "event":
                await self._send(send, self._encoder.error(classified), more=False)
            # Otherwise the response stays incomplete: the server closes the connection, so the client sees an error.

    async def _run(self, send: Send) -> None:
        async with aclosing(self._answer) as events:
            async for item in events:
                if isinstance(item, Report):
                    await self._finish(send, item)
                elif isinstance(item, ContextCompacted):
                    await self._report_compaction(send, item)
                else:
                    await self._write(send, item)

    async def _write(self, send: Send, chunk: Chunk) -> None:
        if data := self._encoder.write(chunk):
            if not self._started and chunk.as_sent is not None and chunk.progress is None:
                # Forwarded unchanged: the outcome is known in advance.
                self.headers.update(outcome_headers(Report(Outcome.PASSTHROUGH)))
            await self._send(send, data)
        elif chunk.progress is not None:
            await self._send_comment(send, f"prefill {chunk.progress.processed}/{chunk.progress.total}")

    async def _report_compaction(self, send: Send, compaction: ContextCompacted) -> None:
        """Report a compaction in a header, or in a comment if a long wait for a slot has already sent the headers."""
        self._compactions.append(compaction)
        headers = compaction_headers(self._compactions)
        if not self._started:
            self.headers.update(headers)
        await self._send_comment(send, headers_as_text(headers))

    async def _finish(self, send: Send, report: Report) -> None:
        if self._before_end is not None:
            await self._before_end()
        data = self._encoder.finish(report)
        if report.outcome is not Outcome.PASSTHROUGH:
            data = self._encoder.comment(headers_as_text(outcome_headers(report))) + data
        await self._send(send, data, more=False)

    async def _send_comment(self, send: Send, text: str) -> None:
        """Send a comment once the headers are sent. It does not replace a keep-alive: some clients time out on
        comments alone.
        """
        if self._started and (data := self._encoder.comment(text)):
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        if not self._started:
            await self._start(send)
        self._sent_at = time.monotonic()
        self._is_sending = True
        await send_body(send, data, more=more)
        self._is_sending = False

    async def _start(self, send: Send) -> None:
        self._started = True
        self._sent_at = time.monotonic()
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

    @asynccontextmanager
    async def _keep_alive_during(self, send: Send) -> AsyncGenerator[None]:
        """Keep the connection alive inside the context. Most responses end before this starts a task."""
        tasks: list[asyncio.Task[None]] = []
        timer = asyncio.get_running_loop().call_later(
            self._config.first_event_seconds, lambda: tasks.append(asyncio.create_task(self._keep_alive(send)))
        )
        try:
            yield
        finally:
            timer.cancel()
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _keep_alive(self, send: Send) -> None:
        """Send the headers, then a keep-alive after each `keepalive_seconds` of silence.

        A client that has not read an event yet gets none: it would end up inside the event.
        """
        if not self._started:
            await self._start(send)
        while True:
            silent = 0.0 if self._is_sending else time.monotonic() - self._sent_at
            if silent < self._config.keepalive_seconds:
                await asyncio.sleep(self._config.keepalive_seconds - silent)
                continue
            await self._send(send, self._encoder.keepalive())
