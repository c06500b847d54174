"""Runs the attempts of one guarded request one at a time: sends each and judges its response.

Two loops use it: `Engine`, which answers a client, and a workflow, for which each attempt is an iteration.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.errors import BackendFault, ContextBudgetExceeded, ContextOverflow, UnreadCall
from forge_proxy.core.guardrails import Retry, Turn, judge_unparsed_call, without_corrections
from forge_proxy.core.guardrails.attempt import Attempt, FinishedAttempt
from forge_proxy.core.guardrails.report import cut_name
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.guardrails.usage import TokenUsage
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.context_fitting import ContextFitter
from forge_proxy.engine.events import AttemptRetried, ContextCompacted, LoopDetected, LostResponseRetried
from forge_proxy.engine.memory import MemoryBudget, ResponseMemory
from forge_proxy.engine.pacing import LoopTurns, Pace, pieces_of
from forge_proxy.engine.parse_replies import readings_of
from forge_proxy.engine.ports import Observer, ThoroughReader
from forge_proxy.engine.text_responses import TextResponseHistory
from forge_proxy.wire.backends.openai.request import LIMITS

_LOSSES = 2
"""How often one request is retried because its response was lost: it may be the request that ends the model server."""


@dataclass(frozen=True, slots=True)
class EngineDeps:
    """The dependencies of an attempt, shared by all requests of an engine."""

    backend: CompatibleBackend
    fitting: ContextFitter
    text_answers: TextResponseHistory
    thorough: ThoroughReader | None
    observe: Observer
    turns: LoopTurns = field(default_factory=LoopTurns)
    memory: MemoryBudget | None = None


class LostResponses:
    """Counts the responses to one request that were lost before anything of them was sent to the client.

    They are retried immediately, for every backend: SDKs do not retry a stream that breaks off, and clients cannot
    distinguish an error inside it from one that the request caused. `BackendUnreachable` ends the retries.
    `BackendTimeout` is not retried: it took the longest time that the settings allow, and the next response of a
    server that hangs would take it again. A status of 400 or more precedes the stream, with its `Retry-After`:
    clients retry it themselves.
    """

    def __init__(self, request_id: str, observe: Observer) -> None:
        self._request_id = request_id
        self._observe = observe
        self._times = 0

    def permit_retry(self, fault: BackendFault, *, begun: bool) -> bool:
        """Return whether to retry the request after this fault; if so, count the fault."""
        if begun or not fault.is_passing or self._times == _LOSSES:
            return False
        self._times += 1
        self._observe(LostResponseRetried(self._request_id, fault.summary))
        return True


class AttemptRunner:
    """Runs the attempts of one request. `served` is the name under which its model is known.

    If `raw`, chunks are yielded as the backend sends them; otherwise only those that the stream gate releases.
    """

    def __init__(
        self,
        deps: EngineDeps,
        request: ChatRequest,
        request_id: str,
        served: str,
        model: str | None,
        sampling: JsonObject,
        memory: ResponseMemory,
        *,
        raw: bool = False,
    ) -> None:
        self._deps = deps
        self._memory = memory
        self._request: ChatRequest = request
        self._served = served
        self._model = model
        self._sampling = sampling
        self._raw = raw
        self._losses = LostResponses(request_id, deps.observe)
        self._latest: Attempt | None = None
        self._room: int | None = None
        """Completion tokens to request if the client set no limit and the model server's own limit cut a response."""
        self.spent = TokenUsage()

    async def attempt(self, turn: Turn) -> AsyncGenerator[Chunk | ContextCompacted | Retry | FinishedAttempt]:
        """Run one attempt and yield its result last. Closing it stops the generation. Raises like `Engine.answer`.

        A context compacted for one attempt stays compacted for the next, so the model server's prefix cache matches.
        """
        fitting = self._deps.fitting
        call: ModelCall = self.call(turn)
        verdict: Retry | FinishedAttempt | None = None
        while verdict is None:
            self._memory.release()
            pace = Pace(self._deps.turns)
            attempt = self._latest = Attempt(turn, self._request.choices, after=self._latest)
            try:
                call, compacted = await fitting.admit(call, turn.request_id)
                if compacted:
                    self._request = call.request
                    yield compacted
                async with aclosing(self._deps.backend.stream(call)) as chunks:
                    async for chunk in chunks:
                        await self._memory.add(chunk)
                        if chunk.pending_bytes:
                            continue
                        if self._raw:
                            yield chunk
                        for piece in pieces_of(chunk):
                            await pace.begin_step()
                            out = attempt.take(piece)
                            pace.end_step()
                            if out is not None and not self._raw:
                                yield out
                        if attempt.is_over:
                            break
                fitting.saw(call, attempt.usage)
                verdict = await self._judge(turn, call, attempt)
            except UnreadCall as unread:
                verdict = attempt.rescue(unread.written) or judge_unparsed_call(turn, attempt.left)
                if verdict is None:
                    raise
            except (ContextOverflow, ContextBudgetExceeded) as over:
                if attempt.left:
                    raise
                if shorter := await fitting.after_overflow(call, over, turn.request_id):
                    call, compacted = shorter
                    self._request = call.request
                    yield compacted
                elif turn.added:
                    verdict = Retry(without_corrections(turn), Fault.NO_ROOM)
                else:
                    raise
            except BackendFault as fault:
                verdict = self._after_fault(attempt, fault)
                if verdict is None and attempt.left:
                    self._latest = None
                    yield Chunk(anew=True)
        if isinstance(verdict, Retry):
            tool, reason = cut_name(verdict.tool), verdict.reason
            self._deps.observe(AttemptRetried(turn.request_id, turn.attempt, verdict.fault, tool, reason))
        yield verdict

    @property
    def reasoning(self) -> str:
        """The model's reasoning in the latest attempt, as far as the backend reports it separately."""
        return "".join(reply.reasoning or "" for reply in self._latest.replies()) if self._latest else ""

    def call(self, turn: Turn) -> ModelCall:
        """Build the call that an attempt sends to the backend."""
        request = self._request
        if self._room is not None and all(request.body.get(name) is None for name in LIMITS):
            request = replace(request, body={**request.body, "max_tokens": self._room}, limit=self._room)
        # llama-server rejects logprobs in a stream with tools, but returns them in a non-streaming response.
        stream = request.stream or not request.body.get("logprobs")
        return ModelCall(
            request,
            stream=stream,
            respond=turn.respond,
            added=turn.added,
            required_tools=turn.constrained_tools,
            model=self._model,
            usage=True,
            sampling=self._sampling,
        )

    def _after_fault(self, attempt: Attempt, fault: BackendFault) -> FinishedAttempt | None:
        """Return the final answer after a fault, or None if the request is to be retried. Raises `fault` otherwise."""
        # A non-streaming client has received nothing, whatever the stream gate has released.
        if self._losses.permit_retry(fault, begun=bool(attempt.left) and self._request.stream):
            return None
        # A workflow that runs the loop itself decides what follows a fault.
        finished = None if self._raw else attempt.settle_failed_retry()
        if finished is None:
            raise fault
        return finished

    async def _judge(self, turn: Turn, call: ModelCall, attempt: Attempt) -> Retry | FinishedAttempt:
        """Record what a finished attempt showed and return the verdict on it. Raises like `Attempt.judge`."""
        for loop in attempt.loops:
            self._deps.observe(LoopDetected(turn.request_id, turn.attempt, loop, turn.policy.on_loop == "cut"))
        if attempt.usage is not None:
            self.spent.add(attempt.usage, corrected=bool(turn.added))
        readings = await readings_of(turn, attempt.replies(), self._deps.thorough, self._deps.turns)
        self._deps.text_answers.saw(self._served, readings)
        verdict = attempt.judge(readings)
        if isinstance(verdict, Retry) and verdict.fault is Fault.CUT and attempt.usage is not None:
            self._room = await self._deps.fitting.room_beside(call, attempt.usage)
        return verdict
