"""Send a streamed response over ASGI. The headers leave with the first event, or after `server.first_event_seconds`;
an error before that has its own status. Keep-alives fill silences; after an error, the stream has no clean end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.disconnect import leaving_cancels
from forge_proxy.api.errors import error_response, render
from forge_proxy.api.openai.outcome import compacted_header, outcome_comment, outcome_headers
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.answer import AnswerEvent
from forge_proxy.engine.events import ContextCompacted
from forge_proxy.wire.clients.chat_completions.response import DONE, ChunkWriter, comment, event


def head_of(chunk: Chunk | None, request: ChatRequest, request_id: str) -> JsonObject:
    """Return the id, time and model of a response: the backend's, or the daemon's for those that are missing."""
    from_backend: JsonObject = chunk.head if chunk else {}
    head: JsonObject = {
        "id": from_backend.get("id") or f"chatcmpl-{request_id}",
        "created": from_backend.get("created") or int(time.time()),
        "model": from_backend.get("model") or request.model or "",
    }
    if "system_fingerprint" in from_backend:
        head = {**head, "system_fingerprint": from_backend["system_fingerprint"]}
    return head


class StreamingAnswer(Response):
    """An engine's response, sent as server-sent events."""

    def __init__(
        self,
        answer: AsyncGenerator[AnswerEvent],
        request: ChatRequest,
        request_id: str,
        config: ServerConfig,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-cache", **headers})
        del self.headers["content-length"]
        self._answer = answer
        self._request = request
        self._request_id = request_id
        self._config = config
        self._extra_headers = headers
        self._writer: ChunkWriter | None = None
        self._started = False
        self._sent_at = 0.0
        self._compacted: list[ContextCompacted] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream the response until it ends or the client disconnects."""
        try:
            async with leaving_cancels(receive), self._kept_alive(send):
                await self._run(send)
        except ForgeError as error:
            if not self._started:
                self._started = True
                await error_response(error, self._extra_headers)(scope, receive, send)
            elif self._config.stream_errors == "event":
                await self._send(send, event(orjson.dumps(render(error).body)), more=False)
            # Otherwise the response stays incomplete: the server closes the connection, so the client sees an error.

    async def _run(self, send: Send) -> None:
        async with aclosing(self._answer) as events:
            async for item in events:
                if isinstance(item, Report):
                    await self._end(send, item)
                elif isinstance(item, ContextCompacted):
                    await self._report_compaction(send, item)
                elif item.progress is not None:
                    await self._report_progress(send, item)
                elif data := self._write(item):
                    await self._send(send, data)

    def _write(self, chunk: Chunk) -> bytes:
        if self._writer is None:
            self._writer = ChunkWriter(head_of(chunk, self._request, self._request_id))
        if chunk.as_sent is not None:  # forwarded unchanged; its headers are known in advance
            if not self._started:
                self.headers.update(outcome_headers(Report(Outcome.PASSTHROUGH)))
            return event(chunk.as_sent)
        return self._writer.write(chunk, usage=self._request.include_usage)

    async def _report_progress(self, send: Send, chunk: Chunk) -> None:
        """Report prompt progress: unchanged if the client requested it, else as a comment once the headers are sent.

        A comment does not replace a keep-alive: some clients time out on comments alone.
        """
        if self._request.body.get("return_progress") and chunk.as_sent is not None:
            await self._send(send, event(chunk.as_sent))
        elif self._started and chunk.progress is not None:
            data = comment(f"prefill {chunk.progress.processed}/{chunk.progress.total}")
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _report_compaction(self, send: Send, compacted: ContextCompacted) -> None:
        """Report a compaction in a header, or in a comment if a long wait for a slot has already sent the headers."""
        self._compacted.append(compacted)
        header = compacted_header(self._compacted)
        if not self._started:
            self.headers.update(header)
        else:
            data = comment(" ".join(f"{name}={value}" for name, value in header.items()))
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _end(self, send: Send, report: Report) -> None:
        data = DONE
        if report.outcome is not Outcome.PASSTHROUGH:
            data = comment(outcome_comment(report)) + data
        await self._send(send, data, more=False)

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        if not self._started:
            await self._start(send)
        self._sent_at = time.monotonic()
        await send({"type": "http.response.body", "body": data, "more_body": more})

    async def _start(self, send: Send) -> None:
        self._started = True
        self._sent_at = time.monotonic()
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

    @asynccontextmanager
    async def _kept_alive(self, send: Send) -> AsyncGenerator[None]:
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
        """Send the headers, then an empty chunk after each `keepalive_seconds` of silence."""
        if not self._started:
            await self._start(send)
        while True:
            silent = time.monotonic() - self._sent_at
            if silent < self._config.keepalive_seconds:
                await asyncio.sleep(self._config.keepalive_seconds - silent)
                continue
            if self._writer is None:
                self._writer = ChunkWriter(head_of(None, self._request, self._request_id))
            await self._send(send, self._writer.keepalive())
