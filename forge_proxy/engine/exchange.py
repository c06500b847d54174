"""Exchanges one call for its response: the only code that streams the response to a client's request.

The guarded attempt (`attempts.py`) and the unguarded relay (`answer.py`) read their chunks from it. It judges nothing
and changes no chunk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeAlias

from forge_proxy.core.backend_errors import BackendError, BackendFault, ContextOverflow
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.guardrails import Intervention
from forge_proxy.core.guardrails.learned_policy import LearnedPolicy
from forge_proxy.core.guardrails.retry_history import RetryHistory
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.requests.records import RequestRecord
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.admission import Slot
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.content_recorder import ContentRecorder
from forge_proxy.engine.context_fitting import ContextFitter
from forge_proxy.engine.events import ContextCompacted, LostResponseRetried
from forge_proxy.engine.memory import MemoryBudget, ResponseMemory
from forge_proxy.engine.pacing import LoopTurns
from forge_proxy.engine.ports import Observer, ThoroughReader
from forge_proxy.engine.request_recorder import RequestRecorder

_LOSSES = 2
"""How often one request is retried because its response was lost: the request may crash the model server."""


@dataclass(frozen=True, slots=True)
class EngineDeps:
    """The dependencies of a request, shared by all requests of an engine."""

    backend: CompatibleBackend
    fitting: ContextFitter
    learned: LearnedPolicy
    thorough: ThoroughReader | None
    observe: Observer
    turns: LoopTurns = field(default_factory=LoopTurns)
    memory: MemoryBudget | None = None
    retry_history: RetryHistory = field(default_factory=RetryHistory)


class BackendSession:
    """The resources of one request while it uses the backend: a slot and the memory of its response.

    Both are released at the end of the `async with` block. Also counts the responses that were lost.
    """

    def __init__(
        self, deps: EngineDeps, slot: Slot, recorder: RequestRecorder, content: ContentRecorder | None = None
    ) -> None:
        self.deps = deps
        self.slot = slot
        self.recorder = recorder
        self.content = content
        """Collects the text of the request; None if there is no observer of it."""
        self.request_id = recorder.request_id
        self.memory = ResponseMemory(deps.memory)
        self._losses = 0

    async def __aenter__(self) -> BackendSession:
        """Wait for the slot. Raises like `Slot`."""
        await self.slot.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.memory.release()
        self.slot.leave(error)

    def finish(self, record: RequestRecord) -> RequestRecord:
        """Pass on the text of the request that ended with this record. Returns the record."""
        if self.content is not None:
            self.content.finish(record)
        return record

    def permit_retry(self, fault: BackendFault, request: ChatRequest) -> bool:
        """Return whether to send the request again after this fault; if so, count the fault.

        Lost responses are retried immediately, for every backend: SDKs do not retry a stream that breaks off, and
        clients cannot distinguish an error inside it from one that the request caused. `BackendUnreachable` ends the
        retries. `BackendTimeout` is not retried: it took the longest time that the settings allow, and the next
        response of a server that hangs would take it again. A status of 500 or more precedes the stream, with its
        `Retry-After`: clients retry it themselves, except those of Ollama's API.
        """
        has_failed = type(fault) is BackendError and fault.status >= 500
        if not (fault.is_passing or (has_failed and request.is_retried_here)) or self._losses == _LOSSES:
            return False
        self._losses += 1
        self.deps.observe(LostResponseRetried(self.request_id, fault.summary))
        return True


@dataclass(frozen=True, slots=True)
class CallResent:
    """The call is sent again: the chunks so far belong to a response that was lost."""


ExchangeEvent: TypeAlias = Chunk | ContextCompacted | CallResent


class BackendExchange:
    """One call to the backend and the response to it.

    The call is compacted if it exceeds the context budget, or if the model server rejects it as too long, and sent
    again if its response is lost before the client has received anything of it.
    """

    def __init__(self, session: BackendSession, call: ModelCall) -> None:
        self._session = session
        self._deps = session.deps
        self.call = call
        """The call as it was last sent, or will be."""
        self.usage: JsonObject | None = None
        """The latest token counts of the response: some servers send the running total with each chunk."""
        self.discarded: tuple[JsonObject, ...] = ()
        """The token counts of other responses to the call, which were not passed on."""
        self.interventions: tuple[Intervention, ...] = ()
        """The report of how the response was chosen, if there was a choice."""

    async def events(self, may_resend: Callable[[BackendFault], bool]) -> AsyncGenerator[ExchangeEvent]:
        """Send the call and yield the response. Closing the generator stops the generation.

        `may_resend` returns whether the response that ends in this fault may be replaced by another one, as far as the
        client is concerned. Raises `ContextBudgetExceeded`, `MemoryFull`, or a `BackendFault` that was not overcome.
        """
        memory, activity = self._session.memory, self._session.recorder.activity
        while True:
            memory.release()
            self.usage = None
            self.call, compacted = await self._deps.fitting.admit(self.call, self._session.request_id)
            if compacted:
                yield compacted
            self._session.recorder.begin_exchange(streams=self.call.stream)
            try:
                async with aclosing(self._deps.backend.stream(self._traced_call())) as chunks:
                    async for chunk in chunks:
                        await memory.add(chunk, is_kept=self.call.buffered)
                        if not chunk.pending_bytes:
                            activity.add_chunk(chunk)
                            self.usage = chunk.usage or self.usage
                            yield chunk
            except BackendFault as fault:
                recovery = await self._recover(fault) if may_resend(fault) else None
                if recovery is None:
                    raise
            else:
                if not self.call.buffered:
                    memory.release()
                return
            finally:
                self._session.recorder.end_exchange(self.usage)
            for event in recovery:
                yield event

    def _traced_call(self) -> ModelCall:
        traceparent = self._session.recorder.traceparent
        return replace(self.call, traceparent=traceparent) if traceparent else self.call

    def calibrate(self) -> None:
        """Calibrate the estimates of the model's tokens by the usage of the response."""
        self._deps.fitting.calibrate(self.call, self.usage)

    async def _recover(self, fault: BackendFault) -> tuple[ContextCompacted | CallResent, ...] | None:
        """Prepare to send the call again, compacted if it was too long. Returns what to report, or None if sending it
        again cannot help.

        The caller raises the fault: raised here, it would refer to itself by this frame, and all of the request would
        stay in memory until the next garbage collection.
        """
        if isinstance(fault, ContextOverflow):
            shorter = await self._deps.fitting.compact_after_overflow(self.call, fault, self._session.request_id)
            if shorter is not None:
                self.call, compacted = shorter
                return compacted, CallResent()
        elif self._session.permit_retry(fault, self.call.request):
            return (CallResent(),)
        return None
