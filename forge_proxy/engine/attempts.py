"""One guarded request on its way: an attempt at a time, each asked for and judged. The loops around it are `Engine`'s,
for callers who get the answer, and a workflow's, for which each attempt is an iteration.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.errors import BackendFault, ContextBudgetExceeded, ContextOverflow, UnreadCall
from forge_proxy.core.guardrails import Retry, Turn, judge_unread, without_corrections
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
    """What it takes to ask."""

    backend: CompatibleBackend
    fitting: ContextFitter
    text_answers: TextResponseHistory
    thorough: ThoroughReader | None
    observe: Observer
    turns: LoopTurns = field(default_factory=LoopTurns)
    memory: MemoryBudget | None = None


class LostResponses:
    """Counts the responses to one request that were lost before anything of them was sent to the client.

    Those are retried at once, for every backend: SDKs do not retry a stream that breaks off, and clients cannot
    tell an error inside it from one that the request caused. A server that is gone ends this with `BackendUnreachable`.
    Silence (`BackendTimeout`) is not retried: it took the longest time that the settings allow, and the next response
    of a server that hangs would take it again. A status of 400 or more came before the stream, with its `Retry-After`:
    clients retry that themselves.
    """

    def __init__(self, request_id: str, observe: Observer) -> None:
        self._request_id = request_id
        self._observe = observe
        self._times = 0

    def permit_retry(self, fault: BackendFault, *, begun: bool) -> bool:
        """Whether the request is to be retried because of this fault, which is then counted."""
        if begun or not fault.is_passing or self._times == _LOSSES:
            return False
        self._times += 1
        self._observe(LostResponseRetried(self._request_id, fault.summary))
        return True


class AttemptRunner:
    """Asks for the attempts at one request. `served` is the name under which its model is known.

    With `raw` chunks are yielded as the backend sends them, for one who looks on; else only what may leave.
    """

    def __init__(
        self,
        means: EngineDeps,
        request: ChatRequest,
        request_id: str,
        served: str,
        model: str | None,
        sampling: JsonObject,
        memory: ResponseMemory,
        *,
        raw: bool = False,
    ) -> None:
        self._means = means
        self._memory = memory
        self._request: ChatRequest = request
        self._served = served
        self._model = model
        self._sampling = sampling
        self._raw = raw
        self._losses = LostResponses(request_id, means.observe)
        self._latest: Attempt | None = None
        self._room: int | None = None
        """Completion tokens to ask for: the client set no limit, and the model server's own cut a response."""
        self.spent = TokenUsage()

    async def attempt(self, turn: Turn) -> AsyncGenerator[Chunk | ContextCompacted | Retry | FinishedAttempt]:
        """One attempt, and how it ended. Closing it stops the generation. Raises as `Engine.answer`.

        A history that was shortened for one stays so for the next, and the model server has it in its cache.
        """
        fitting = self._means.fitting
        call: ModelCall = self.call(turn)
        verdict: Retry | FinishedAttempt | None = None
        while verdict is None:
            self._memory.release()
            pace = Pace(self._means.turns)
            attempt = self._latest = Attempt(turn, self._request.choices, after=self._latest)
            try:
                call, compacted = await fitting.admit(call, turn.request_id)
                if compacted:
                    self._request = call.request
                    yield compacted
                async with aclosing(self._means.backend.stream(call)) as chunks:
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
                verdict = attempt.rescue(unread.written) or judge_unread(turn, attempt.left)
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
                # Of a whole response the client has received nothing, whatever has left the gate.
                is_released = bool(attempt.left)
                if self._losses.permit_retry(fault, begun=is_released and self._request.stream):
                    if is_released:
                        self._latest = None
                        yield Chunk(anew=True)
                else:
                    # A caller who loops itself decides what follows a fault.
                    verdict = None if self._raw else attempt.settle_failed_retry()
                    if verdict is None:
                        raise
        if isinstance(verdict, Retry):
            tool, reason = cut_name(verdict.tool), verdict.reason
            self._means.observe(AttemptRetried(turn.request_id, turn.attempt, verdict.fault, tool, reason))
        yield verdict

    @property
    def reasoning(self) -> str:
        """What the model thought in the latest attempt, as far as the backend tells it apart."""
        return "".join(reply.reasoning or "" for reply in self._latest.replies()) if self._latest else ""

    def call(self, turn: Turn) -> ModelCall:
        """What the backend is asked in an attempt."""
        request = self._request
        if self._room is not None and all(request.body.get(name) is None for name in LIMITS):
            request = replace(request, body={**request.body, "max_tokens": self._room}, limit=self._room)
        # llama-server refuses logprobs in a stream with tools; whole, it has them.
        stream = request.stream or not request.body.get("logprobs")
        return ModelCall(
            request,
            stream=stream,
            respond=turn.respond,
            added=turn.added,
            demanded=turn.held_to,
            model=self._model,
            usage=True,
            sampling=self._sampling,
        )

    async def _judge(self, turn: Turn, call: ModelCall, attempt: Attempt) -> Retry | FinishedAttempt:
        """The verdict on an attempt that has ended, once what it showed was noted. Raises as `Attempt.judge`."""
        for loop in attempt.loops:
            self._means.observe(LoopDetected(turn.request_id, turn.attempt, loop, turn.policy.on_loop == "cut"))
        if attempt.usage is not None:
            self.spent.add(attempt.usage, corrected=bool(turn.added))
        readings = await readings_of(turn, attempt.replies(), self._means.thorough, self._means.turns)
        self._means.text_answers.saw(self._served, readings)
        verdict = attempt.judge(readings)
        if isinstance(verdict, Retry) and verdict.fault is Fault.CUT and attempt.usage is not None:
            self._room = await self._means.fitting.room_beside(call, attempt.usage)
        return verdict
