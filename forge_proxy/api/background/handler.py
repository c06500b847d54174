"""The kind of jobs that are responses: one phase has the model answer, and stores the response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace

from forge_proxy.api.background.events import EventPages, read_next
from forge_proxy.api.background.request import BackgroundRequest
from forge_proxy.api.bodies import LargeBodies
from forge_proxy.api.endpoint import narrow
from forge_proxy.api.errors import classify
from forge_proxy.api.response_storage import MAX_STORED, ResponseStorage
from forge_proxy.api.surface import ReceivedRequest
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jobs.actions import Finished, NextAction, RunPhase
from forge_proxy.core.jobs.records import NewEvent, StoredJob
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.memory import MemoryBudget, RequestMemory
from forge_proxy.jobs.cancellation import run_cancellable
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest, ResponsesEncoder
from forge_proxy.wire.clients.responses.response_object import QUEUED_EVENTS, encode_state_event

RESPONSE = "response"
"""The kind of these jobs."""
QUEUE = "responses"
_ATTEMPTS = 8
"""Attempts if the model server is busy or not there: about four minutes."""
_RETRIED = frozenset({429, 503})
_ANSWER = RunPhase("answer", queue=QUEUE, max_attempts=_ATTEMPTS)
_INTERRUPTED = RunPhase("report_interruption", queue=QUEUE)
_WAS_INTERRUPTED = ClassifiedError(
    503,
    "server_error",
    "interrupted",
    "the daemon was stopped before the response was complete; send the request again",
)
_TOO_LARGE = ClassifiedError(
    502, "server_error", "too_large", f"the response has more than {MAX_STORED} bytes with its input; it was not stored"
)


class ResponseHandler:
    """`jobs.ports.JobHandler` of responses."""

    kind = RESPONSE

    def __init__(self, engine: Engine, storage: ResponseStorage, memory: MemoryBudget | None = None) -> None:
        self._engine = engine
        self._storage = storage
        self._memory = memory
        self._large_bodies = LargeBodies()

    def first_action(self, job: StoredJob) -> RunPhase:
        """See `JobHandler`."""
        return _ANSWER

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """Have the model answer. See `JobHandler`."""
        request = BackgroundRequest.read(writer.state)
        following = read_next(writer.job.outcome) or QUEUED_EVENTS
        pages = EventPages(writer, following, _INTERRUPTED)
        if phase.phase == _INTERRUPTED.phase:
            return _fail(writer, request, pages, _WAS_INTERRUPTED)
        memory = RequestMemory(self._memory)
        try:
            return await run_cancellable(writer.cancel, self._answer(writer, request, pages, memory))
        except StoreUnavailable:
            raise
        except ForgeError as error:
            classified = classify(error)
            if classified.status in _RETRIED and phase.attempt < phase.max_attempts and not pages.is_stored:
                raise
            return _fail(writer, request, pages, classified)
        finally:
            memory.release()

    def on_cancel(self, writer: JobWriter) -> None:
        """See `JobHandler`."""
        request = BackgroundRequest.read(writer.state)
        _stage_end(writer, request, request.document(writer.job.id, "cancelled"), None)

    async def _answer(
        self, writer: JobWriter, request: BackgroundRequest, pages: EventPages, memory: RequestMemory
    ) -> NextAction:
        received = ReceivedRequest({**request.body, "stream": True}, len(writer.state), writer.job.owner or "", memory)
        decoded = await self._storage.decode(received, self._large_bodies, writer.job.id)
        encoder = decoded.build_stream_encoder(request.request_id, request.created)
        async with _store_pages(pages if request.streams else None):
            ended = await self._encode(request, decoded, encoder, pages)
        pages.add(ended, encoder.next_number)
        document = encoder.response()
        if not encoder.store and len(document) > MAX_STORED:
            return _fail(writer, request, pages, _TOO_LARGE)
        _stage_end(writer, request, document, pages.take())
        return Finished("completed")

    async def _encode(
        self,
        request: BackgroundRequest,
        decoded: DecodedResponsesRequest,
        encoder: ResponsesEncoder,
        pages: EventPages,
    ) -> bytes:
        """Encode the response, and store it. Returns the last events."""
        policy = narrow(self._engine.policies.guardrails, request.switches)
        answer = self._engine.answer(
            decoded.chat, policy, request_id=request.request_id, client=request.client, origin=request.origin
        )
        ended = b""
        async with aclosing(answer) as events:
            async for event in events:
                if isinstance(event, Chunk):
                    written = encoder.write(event)
                    if request.streams:
                        pages.add(written, encoder.next_number)
                elif isinstance(event, Report):
                    await self._storage.save(decoded, encoder)
                    ended = encoder.finish(event)
        return ended


@asynccontextmanager
async def _store_pages(pages: EventPages | None) -> AsyncGenerator[None]:
    """Store the pages that come inside the context."""
    if pages is None:
        yield
        return
    task = asyncio.create_task(pages.store_regularly())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _fail(writer: JobWriter, request: BackgroundRequest, pages: EventPages, error: ClassifiedError) -> Finished:
    document = request.document(writer.job.id, "failed", error)
    pages.add(encode_state_event("failed", pages.next, document), pages.next + 1)
    _stage_end(writer, request, document, pages.take())
    return Finished("failed")


def _stage_end(writer: JobWriter, request: BackgroundRequest, document: bytes, last: NewEvent | None) -> None:
    """Stage the result of a response. The stored request is emptied: it may be long, and nothing needs it any more."""
    events = [last] if last is not None and request.streams else []
    writer.stage(*events, state=replace(request, body={}).write(), outcome=document.decode())
