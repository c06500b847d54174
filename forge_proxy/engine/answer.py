"""The loop of one request: wait for a slot, send it, release what may be sent, judge the response, retry.

`Engine.answer` yields the chunks of the response as they are released and a `Report` at the end. It serves streaming
and non-streaming requests alike.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.dialect import AS_SENT, Dialect
from forge_proxy.core.errors import BackendFault, ContextOverflow, ForgeError
from forge_proxy.core.guardrails import (
    CallsForbidden,
    FinalAnswer,
    GuardPolicy,
    Outcome,
    Retry,
    Turn,
    open_turn,
)
from forge_proxy.core.guardrails.attempt import FinishedAttempt
from forge_proxy.core.guardrails.report import Report, summary_of
from forge_proxy.core.guardrails.usage import TokenUsage
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.admission import Admission, Slot
from forge_proxy.engine.attempts import AttemptRunner, EngineDeps, LostResponses
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.capabilities import Capabilities
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.context_fitting import ContextFitter
from forge_proxy.engine.events import (
    ContextCompacted,
    RequestAbandoned,
    RequestAnswered,
    RequestFailed,
    ToolsUnvalidated,
)
from forge_proxy.engine.memory import MemoryBudget, ResponseMemory
from forge_proxy.engine.models import Models
from forge_proxy.engine.pacing import LoopTurns
from forge_proxy.engine.ports import Backend, CardStore, Clock, Observer, ThoroughReader
from forge_proxy.engine.respond_overhead import RespondOverhead
from forge_proxy.engine.sampling import Sampling
from forge_proxy.engine.text_responses import TextResponseHistory
from forge_proxy.engine.unvalidated_tools import UnvalidatedTools

AnswerEvent: TypeAlias = Chunk | ContextCompacted | Report


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """An accepted attempt: its calls, and the model's reasoning."""

    settled: FinalAnswer
    reasoning: str


class Engine:
    """Answers requests through one backend.

    Without a `ThoroughReader` badly malformed calls are retried. The default `Admission` uses the backend's slots.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        observe: Observer,
        default_model: str | None = None,
        thorough: ThoroughReader | None = None,
        admission: Admission | None = None,
        dialect: Dialect = AS_SENT,
        cards: CardStore | None = None,
        budgets: Budgets | None = None,
        sampling: Sampling | None = None,
        catalog: Catalog | None = None,
        compaction: CompactionPolicy | None = None,
        memory: MemoryBudget | None = None,
        turns: LoopTurns | None = None,
    ) -> None:
        self._backend = CompatibleBackend(backend, observe, dialect)
        self._respond_overhead = RespondOverhead(self._backend)
        self._clock = clock
        self._observe = observe
        self._admission = admission or Admission(backend, clock, observe)
        self._unvalidated_tools = UnvalidatedTools()
        self.models = Models(backend, clock, default_model, catalog)
        self.budgets = budgets or Budgets(backend, clock, observe)
        self.fitting = ContextFitter(self.budgets, self._backend.count_tokens, observe, compaction)
        self.sampling = sampling or Sampling(observe)
        self.text_answers = TextResponseHistory()
        self.turns = turns or LoopTurns()
        self._deps = EngineDeps(
            self._backend, self.fitting, self.text_answers, thorough, observe, self.turns, memory=memory
        )
        self.capabilities = Capabilities(backend, self._backend, dialect, cards)

    @property
    def queue(self) -> FairQueue:
        """The running and waiting requests, for inspection."""
        return self._admission.queue

    async def test(self, model: str) -> CapabilityCard:
        """Test a model, in a slot like a request, and store the result. Raises `BackendFault` or `Overloaded`."""
        async with self._admission.slot("self-test", model):
            return await self.capabilities.test(model)

    async def answer(
        self, request: ChatRequest, policy: GuardPolicy, *, request_id: str, client: str = ""
    ) -> AsyncGenerator[AnswerEvent]:
        """Yield the chunks of the response as they are released, then a `Report`.

        A `ContextCompacted` precedes them for each compaction. Closing the generator stops the generation.

        Slots are shared fairly between clients; any string identifies a client. Raises `Overloaded`,
        `ContextBudgetExceeded`, `UnknownModel`, `UnsupportedModelError`, a `BackendFault`, `ToolChoiceUnsatisfied`,
        `ToolCallInvalid` or `EmptyAnswer`; if chunks have been yielded by then, the response is incomplete.
        """
        began = self._clock.now()
        slot = self._admission.slot(client)
        memory = ResponseMemory(self._deps.memory)

        def elapsed() -> tuple[float, float]:
            return self._clock.now() - began, slot.queued

        done = False
        try:
            slot.model = served = self.models.served_as(request.model)
            turn = open_turn(
                request, policy, request_id=request_id,
                nudge_text=self.text_answers.should_nudge(policy, served),
                opens_thoughts=self.text_answers.opens_thoughts(served),
            )  # fmt: skip
            if turn is not None:
                events = self._guard(request, turn, slot, memory)
            else:
                forbids_calls = bool(request.tools) and policy.enabled.any
                events = self._relay(request, slot, memory, request_id, forbids_calls=forbids_calls)
            async with slot, aclosing(events):
                async for event in events:
                    if isinstance(event, Report):
                        done = True
                        self._observe(RequestAnswered(request_id, request.model, event, *elapsed()))
                    yield event
        except ForgeError as error:
            done = True
            self._observe(RequestFailed(request_id, request.model, summary_of(error, request), *elapsed()))
            raise
        finally:
            memory.release()
            if not done:
                self._observe(RequestAbandoned(request_id, *elapsed()))

    async def count(self, request: ChatRequest) -> int | None:
        """Return the number of prompt tokens of a request; None if the backend cannot count them."""
        model = await self.models.name_for(request.model)
        try:
            return await self._backend.count_tokens(ModelCall(request, stream=request.stream, model=model))
        except BackendFault:  # the request itself will raise it
            return None

    async def attempt(
        self, request: ChatRequest, turn: Turn, *, client: str = ""
    ) -> AsyncGenerator[Chunk | Retry | AttemptResult]:
        """Run one attempt in its own slot, for a workflow that runs the loop itself.

        Yields the chunks as they arrive, then the result. Raises like `answer`.
        """
        async with self._admission.slot(client, self.models.served_as(request.model)):
            with ResponseMemory(self._deps.memory) as memory:
                runner = await self._attempt_runner(request, turn.request_id, memory, raw=True)
                async with aclosing(runner.attempt(turn)) as events:
                    async for event in events:
                        if not isinstance(event, ContextCompacted):
                            yield (
                                AttemptResult(event.answers[0], runner.reasoning)
                                if isinstance(event, FinishedAttempt)
                                else event
                            )

    async def unguarded(self, request: ChatRequest, *, request_id: str, client: str = "") -> AsyncGenerator[Chunk]:
        """Yield the chunks of a response as the backend sends them, for code that judges the response itself.

        Raises like `answer`, and `UnreadCall`.
        """
        slot = self._admission.slot(client, self.models.served_as(request.model))
        with ResponseMemory(self._deps.memory) as memory:
            async with slot, aclosing(self._relay(request, slot, memory, request_id, read=True)) as events:
                async for event in events:
                    if isinstance(event, Chunk):
                        yield event

    def tool_mode(self, model: str | None = None) -> Literal["native", "prompt"]:
        """Return how tools are presented to that model, as far as is known. Raises `UnknownModel` like
        `Models.served_as`.
        """
        return self._backend.tool_mode(self.models.served_as(model) or None)

    async def _relay(
        self,
        request: ChatRequest,
        slot: Slot,
        memory: ResponseMemory,
        request_id: str,
        *,
        forbids_calls: bool = False,
        read: bool = False,
    ) -> AsyncGenerator[AnswerEvent]:
        """Relay a request that needs no guardrails except, at most, the suppression of calls.

        `read` is for code that inspects the chunks instead of forwarding them verbatim.
        """
        model = await self.models.name_for(request.model)
        sampling = self.sampling.values_for(self.models.served_as(request.model))
        suppressor = CallsForbidden() if forbids_calls else None
        verbatim = suppressor is None and not read and not request.is_converted
        buffered = read or not request.stream
        call = ModelCall(
            request, request.stream, model=model, sampling=sampling, usage=read, verbatim=verbatim, buffered=buffered
        )
        call, compacted = await self.fitting.admit(call, request_id)
        if compacted:
            yield compacted
        usage: JsonObject | None = None
        losses, begun, done = LostResponses(request_id, self._observe), False, False
        while not done:
            memory.release()
            try:
                async with aclosing(self._backend.stream(call)) as chunks:
                    async for chunk in chunks:
                        await memory.add(chunk, is_kept=buffered)
                        if chunk.pending_bytes:
                            continue
                        begun = begun or chunk.progress is None
                        usage = chunk.usage or usage
                        yield suppressor.take(chunk) if suppressor else chunk
                done = True
            except ContextOverflow as overflow:
                shorter = None if begun else await self.fitting.after_overflow(call, overflow, request_id)
                if shorter is None:
                    raise
                call, compacted = shorter
                yield compacted
            except BackendFault as fault:
                if not losses.permit_retry(fault, begun=begun):
                    raise
        slot.leave()
        self.fitting.saw(call, usage)
        marks = suppressor.marks if suppressor else ()
        yield Report(Outcome.REPAIRED if marks else Outcome.PASSTHROUGH, marks=marks)

    async def _guard(
        self, request: ChatRequest, turn: Turn, slot: Slot, memory: ResponseMemory
    ) -> AsyncGenerator[AnswerEvent]:
        """Run the attempts of a guarded request until one is accepted. All use the same slot."""
        runner = await self._attempt_runner(request, turn.request_id, memory)
        verdict: FinishedAttempt | None = None
        if unchecked := await self._unvalidated_tools.unchecked(turn):
            self._observe(ToolsUnvalidated(turn.request_id, unchecked))
        while verdict is None:
            async with aclosing(runner.attempt(turn)) as events:
                async for event in events:
                    if isinstance(event, Chunk | ContextCompacted):
                        yield event
                    elif isinstance(event, Retry):
                        turn = event.turn
                    else:
                        verdict = event
        # Counted while the slot is held: after it is released, the server may load another model.
        usage = await self._usage(runner.call(turn), runner.spent)
        slot.leave()  # the backend is done; other requests must not wait for a client that reads slowly
        for chunk in verdict.chunks:
            yield chunk
        yield Chunk(usage=usage)
        for settled in verdict.answers:
            self.text_answers.learn(self.models.served_as(request.model), turn.faults, settled)
        yield _report(turn, verdict.answers, runner.spent)

    async def _attempt_runner(
        self, request: ChatRequest, request_id: str, memory: ResponseMemory, *, raw: bool = False
    ) -> AttemptRunner:
        model = await self.models.name_for(request.model)
        served = self.models.served_as(request.model)  # known only after `name_for`, at the first request
        sampling = self.sampling.values_for(served)
        return AttemptRunner(self._deps, request, request_id, served, model, sampling, memory, raw=raw)

    async def _usage(self, call: ModelCall, spent: TokenUsage) -> JsonObject | None:
        """The usage of the delivered attempt; if the client receives it, without the tokens of the `respond` tool."""
        usage = spent.usage()
        if usage is None or (call.request.stream and not call.request.include_usage):
            return usage
        return spent.usage(await self._respond_overhead.added_to(call))


def _report(turn: Turn, answers: list[FinalAnswer], spent: TokenUsage) -> Report:
    outcome = Outcome.furthest(settled.outcome for settled in answers)
    marks = tuple(mark for settled in answers for mark in settled.marks)
    return Report(outcome, turn.attempt, turn.faults, marks, spent.tokens or None)
