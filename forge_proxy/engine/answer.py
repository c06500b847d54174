"""The loop of one request: wait for a slot, ask, let out what may leave, judge, ask again.

`Engine.answer` yields the chunks of the answer as they may leave and a `Report` at the end. Streamed and whole answers
both come from here.
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
    """An attempt that was an answer: its calls, and what the model thought."""

    settled: FinalAnswer
    reasoning: str


class Engine:
    """Answers requests through one backend.

    Without a `ThoroughReader` badly broken calls are asked for again. The usual `Admission` goes by the slots it has.
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
        self._own_prompt = RespondOverhead(self._backend)
        self._clock = clock
        self._observe = observe
        self._admission = admission or Admission(backend, clock, observe)
        self._tool_sets = UnvalidatedTools()
        self.models = Models(backend, clock, default_model, catalog)
        self.budgets = budgets or Budgets(backend, clock, observe)
        self.fitting = ContextFitter(self.budgets, self._backend.count_tokens, observe, compaction)
        self.sampling = sampling or Sampling(observe)
        self.text_answers = TextResponseHistory()
        self.turns = turns or LoopTurns()
        self._means = EngineDeps(
            self._backend, self.fitting, self.text_answers, thorough, observe, self.turns, memory=memory
        )
        self.capabilities = Capabilities(backend, self._backend, dialect, cards)

    @property
    def queue(self) -> FairQueue:
        """Who runs and who waits, to look at."""
        return self._admission.queue

    async def test(self, model: str) -> CapabilityCard:
        """Test a model, in a slot like a request's, and keep what is found. Raises `BackendFault` or `Overloaded`."""
        async with self._admission.slot("self-test", model):
            return await self.capabilities.test(model)

    async def answer(
        self, request: ChatRequest, policy: GuardPolicy, *, request_id: str, client: str = ""
    ) -> AsyncGenerator[AnswerEvent]:
        """Yield the chunks of the answer as they may be sent, then a `Report`; before them a `ContextCompacted` for
        each compaction. Closing the generator stops the generation.

        Slots are shared fairly between clients, whom any string names. Raises `Overloaded`, `ContextBudgetExceeded`,
        `UnknownModel`, `UnsupportedModelError`, a `BackendFault`, `ToolChoiceUnsatisfied`, `ToolCallInvalid` or
        `EmptyAnswer`; after chunks have been yielded the answer is then incomplete.
        """
        began = self._clock.now()
        slot = self._admission.slot(client)
        memory = ResponseMemory(self._means.memory)

        def took() -> tuple[float, float]:
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
                        self._observe(RequestAnswered(request_id, request.model, event, *took()))
                    yield event
        except ForgeError as error:
            done = True
            self._observe(RequestFailed(request_id, request.model, summary_of(error, request), *took()))
            raise
        finally:
            memory.release()
            if not done:
                self._observe(RequestAbandoned(request_id, *took()))

    async def count(self, request: ChatRequest) -> int | None:
        """How many tokens the prompt of a request has; None where the backend cannot say."""
        model = await self.models.name_for(request.model)
        try:
            return await self._backend.count_tokens(ModelCall(request, stream=request.stream, model=model))
        except BackendFault:  # it will say so itself when it is asked for the answer
            return None

    async def attempt(
        self, request: ChatRequest, turn: Turn, *, client: str = ""
    ) -> AsyncGenerator[Chunk | Retry | AttemptResult]:
        """One attempt of a conversation whose caller loops himself, in a slot of its own: the chunks as they come, and
        what came of them. Raises like `answer`.
        """
        async with self._admission.slot(client, self.models.served_as(request.model)):
            with ResponseMemory(self._means.memory) as memory:
                asking = await self._asking(request, turn.request_id, memory, raw=True)
                async with aclosing(asking.attempt(turn)) as events:
                    async for event in events:
                        if not isinstance(event, ContextCompacted):
                            yield (
                                AttemptResult(event.answers[0], asking.reasoning)
                                if isinstance(event, FinishedAttempt)
                                else event
                            )

    async def unguarded(self, request: ChatRequest, *, request_id: str, client: str = "") -> AsyncGenerator[Chunk]:
        """The chunks of an answer as the backend gives them, for a caller who judges it himself. Raises like `answer`,
        and `UnreadCall`.
        """
        slot = self._admission.slot(client, self.models.served_as(request.model))
        with ResponseMemory(self._means.memory) as memory:
            async with slot, aclosing(self._relay(request, slot, memory, request_id, read=True)) as events:
                async for event in events:
                    if isinstance(event, Chunk):
                        yield event

    def tool_mode(self, model: str | None = None) -> Literal["native", "prompt"]:
        """How that model is told of tools, as far as is known by now. Raises `UnknownModel` like `Models.served_as`."""
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
        """A request with nothing to guard but that no call comes, asked and answered the way its caller asked. `read`
        is for a caller who does not pass the chunks on, but looks into them.
        """
        model = await self.models.name_for(request.model)
        sampling = self.sampling.values_for(self.models.served_as(request.model))
        forbidden = CallsForbidden() if forbids_calls else None
        verbatim = forbidden is None and not read
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
                        yield forbidden.take(chunk) if forbidden else chunk
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
        marks = forbidden.marks if forbidden else ()
        yield Report(Outcome.REPAIRED if marks else Outcome.PASSTHROUGH, marks=marks)

    async def _guard(
        self, request: ChatRequest, turn: Turn, slot: Slot, memory: ResponseMemory
    ) -> AsyncGenerator[AnswerEvent]:
        """The attempts of a guarded request, until one is an answer. All have the same slot."""
        asking = await self._asking(request, turn.request_id, memory)
        verdict: FinishedAttempt | None = None
        if unchecked := await self._tool_sets.unchecked(turn):
            self._observe(ToolsUnvalidated(turn.request_id, unchecked))
        while verdict is None:
            async with aclosing(asking.attempt(turn)) as events:
                async for event in events:
                    if isinstance(event, Chunk | ContextCompacted):
                        yield event
                    elif isinstance(event, Retry):
                        turn = event.turn
                    else:
                        verdict = event
        # Counted in the slot: once that is left, the server may be on its way to another model.
        usage = await self._usage(asking.call(turn), asking.spent)
        slot.leave()  # the backend is done, and nobody shall wait for a caller who reads slowly
        for chunk in verdict.chunks:
            yield chunk
        yield Chunk(usage=usage)
        for settled in verdict.answers:
            self.text_answers.learn(self.models.served_as(request.model), turn.faults, settled)
        yield _report(turn, verdict.answers, asking.spent)

    async def _asking(
        self, request: ChatRequest, request_id: str, memory: ResponseMemory, *, raw: bool = False
    ) -> AttemptRunner:
        model = await self.models.name_for(request.model)
        served = self.models.served_as(request.model)  # known from here on, at the first request not before
        sampling = self.sampling.values_for(served)
        return AttemptRunner(self._means, request, request_id, served, model, sampling, memory, raw=raw)

    async def _usage(self, call: ModelCall, spent: TokenUsage) -> JsonObject | None:
        """The usage of the delivered attempt; where the caller is told it, without what we added to the prompt."""
        usage = spent.usage()
        if usage is None or (call.request.stream and not call.request.include_usage):
            return usage
        return spent.usage(await self._own_prompt.added_to(call))


def _report(turn: Turn, answers: list[FinalAnswer], spent: TokenUsage) -> Report:
    outcome = Outcome.furthest(settled.outcome for settled in answers)
    marks = tuple(mark for settled in answers for mark in settled.marks)
    return Report(outcome, turn.attempt, turn.faults, marks, spent.tokens or None)
