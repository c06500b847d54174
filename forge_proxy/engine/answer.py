"""The loop of one request: wait for a slot, ask, let out what may leave, judge, ask again.

`Engine.answer` yields the chunks of the answer as they may leave and a `Report` at the end. Streamed and whole answers
both come from here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.dialect import AS_SENT, Dialect
from forge_proxy.core.errors import BackendLost, ContextBudgetExceeded, ContextOverflow, ForgeError, UnreadCall
from forge_proxy.core.guardrails import (
    CallsForbidden,
    GuardPolicy,
    Outcome,
    Retry,
    Settled,
    Turn,
    judge_unread,
    open_turn,
    without_corrections,
)
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.guardrails.usage import Spent
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.accommodate import Accommodating
from forge_proxy.engine.admission import Admission, Slot
from forge_proxy.engine.attempt import Attempt, Settlement
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.capabilities import Capabilities
from forge_proxy.engine.events import Abandoned, Answered, AskedAnew, Compacted, Failed, Looped, Retried, Unchecked
from forge_proxy.engine.fitting import Fitting
from forge_proxy.engine.models import Models
from forge_proxy.engine.own_prompt import OwnPrompt
from forge_proxy.engine.ports import Backend, CardStore, Clock, Observer, ThoroughReader
from forge_proxy.engine.readings import readings_of
from forge_proxy.engine.report import Report
from forge_proxy.engine.sampling import Sampling
from forge_proxy.engine.text_answers import TextAnswers
from forge_proxy.engine.tool_sets import ToolSets

AnswerEvent: TypeAlias = Chunk | Compacted | Report
_LOSSES = 2
"""How often one request is asked anew because the model server ended: it may be the request that ends it."""


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
    ) -> None:
        self._backend = Accommodating(backend, observe, dialect)
        self._own_prompt = OwnPrompt(self._backend)
        self._clock = clock
        self._observe = observe
        self._thorough = thorough
        self._admission = admission or Admission(backend, clock, observe)
        self._tool_sets = ToolSets()
        self.models = Models(backend, clock, default_model, catalog)
        self.budgets = budgets or Budgets(backend, clock, observe)
        self.fitting = Fitting(self.budgets, self._backend.count_tokens, observe, compaction)
        self.sampling = sampling or Sampling(observe)
        self.text_answers = TextAnswers()
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
        """Chunks of the answer as they may leave, then a `Report`; before them a `Compacted` for each time that the
        history was shortened. Closing it stops the generation.

        Slots are shared fairly between clients, whom any string names. Raises `Overloaded`, `ContextBudgetExceeded`,
        `UnknownModel`, `UnsupportedModelError`, a `BackendFault`, `ToolChoiceUnsatisfied`, `ToolCallInvalid` or
        `EmptyAnswer`; after chunks have been yielded the answer is then incomplete.
        """
        began = self._clock.now()
        slot = self._admission.slot(client)

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
            events = self._guard(request, turn, slot) if turn else self._relay(request, policy, slot, request_id)
            async with slot, aclosing(events):
                async for event in events:
                    if isinstance(event, Report):
                        done = True
                        self._observe(Answered(request_id, request.model, event, *took()))
                    yield event
        except ForgeError as error:
            done = True
            self._observe(Failed(request_id, request.model, error.summary, *took()))
            raise
        finally:
            if not done:
                self._observe(Abandoned(request_id, *took()))

    async def _relay(
        self, request: ChatRequest, policy: GuardPolicy, slot: Slot, request_id: str
    ) -> AsyncGenerator[AnswerEvent]:
        """A request with nothing to guard but that no call comes, asked and answered the way its caller asked."""
        model = await self.models.name_for(request.model)
        sampling = self.sampling.values_for(self.models.served_as(request.model))
        forbidden = CallsForbidden() if request.tools and policy.enabled.any else None
        call = ModelCall(request, stream=request.stream, model=model, sampling=sampling, verbatim=forbidden is None)
        call, compacted = await self.fitting.admit(call, request_id)
        if compacted:
            yield compacted
        usage: JsonObject | None = None
        losses, begun, done = 0, False, False
        while not done:
            try:
                async with aclosing(self._backend.stream(call)) as chunks:
                    async for chunk in chunks:
                        begun = begun or chunk.progress is None
                        usage = chunk.usage or usage
                        yield forbidden.take(chunk) if forbidden else chunk
                done = True
            except BackendLost as lost:
                losses = self._count_loss(request_id, lost, losses, begun=begun)
            except ContextOverflow as overflow:
                shorter = None if begun else await self.fitting.after_overflow(call, overflow, request_id)
                if shorter is None:
                    raise
                call, compacted = shorter
                yield compacted
        slot.leave()
        self.fitting.saw(call, usage)
        marks = forbidden.marks if forbidden else ()
        yield Report(Outcome.REPAIRED if marks else Outcome.PASSTHROUGH, marks=marks)

    async def _guard(self, request: ChatRequest, turn: Turn, slot: Slot) -> AsyncGenerator[AnswerEvent]:
        """The attempts of a guarded request, until one is an answer. All have the same slot."""
        model = await self.models.name_for(request.model)
        sampling = self.sampling.values_for(self.models.served_as(request.model))
        spent, losses = Spent(), 0
        attempt: Attempt | None = None
        if unchecked := self._tool_sets.unchecked(turn):
            self._observe(Unchecked(turn.request_id, unchecked))
        while True:
            attempt = Attempt(turn, request.choices, after=attempt)
            call = _call(request, turn, model, sampling)
            try:
                call, compacted = await self.fitting.admit(call, turn.request_id)
                if compacted:
                    request = call.request
                    yield compacted
                async with aclosing(self._backend.stream(call)) as chunks:
                    async for chunk in chunks:
                        if (out := attempt.take(chunk)) is not None:
                            yield out
                        if attempt.is_over:
                            break
                self.fitting.saw(call, attempt.usage)
                verdict = await self._judge(request, turn, attempt, spent)
            except BackendLost as lost:
                losses = self._count_loss(turn.request_id, lost, losses, begun=bool(attempt.left))
                continue
            except UnreadCall as unread:
                verdict = attempt.rescue(unread.written) or judge_unread(turn, attempt.left)
                if verdict is None:
                    raise
            except (ContextOverflow, ContextBudgetExceeded) as over:
                if attempt.left:
                    raise
                if shorter := await self.fitting.after_overflow(call, over, turn.request_id):
                    request = shorter[0].request
                    yield shorter[1]
                    continue
                if not turn.added:
                    raise
                verdict = Retry(without_corrections(turn), Fault.NO_ROOM)
            if isinstance(verdict, Settlement):
                break
            self._observe(Retried(turn.request_id, turn.attempt, verdict.fault))
            turn = verdict.turn
        # Counted in the slot: once that is left, the server may be on its way to another model.
        usage = await self._usage(call, spent)
        slot.leave()  # the backend is done, and nobody shall wait for a caller who reads slowly
        for chunk in verdict.chunks:
            yield chunk
        yield Chunk(usage=usage)
        for settled in verdict.answers:
            self.text_answers.learn(self.models.served_as(request.model), turn.faults, settled)
        yield _report(turn, verdict.answers, spent)

    async def _judge(self, request: ChatRequest, turn: Turn, attempt: Attempt, spent: Spent) -> Retry | Settlement:
        """The verdict on an attempt that has ended, once what it showed was noted. Raises as `Attempt.judge`."""
        for loop in attempt.loops:
            self._observe(Looped(turn.request_id, turn.attempt, loop, turn.policy.on_loop == "cut"))
        if attempt.usage is not None:
            spent.add(attempt.usage, corrected=bool(turn.added))
        readings = await readings_of(turn, attempt.replies(), self._thorough)
        self.text_answers.saw(self.models.served_as(request.model), readings)
        return attempt.judge(readings)

    async def _usage(self, call: ModelCall, spent: Spent) -> JsonObject | None:
        """The usage of the delivered attempt; where the caller is told it, without what we added to the prompt."""
        usage = spent.usage()
        if usage is None or (call.request.stream and not call.request.include_usage):
            return usage
        return spent.usage(await self._own_prompt.added_to(call))

    def _count_loss(self, request_id: str, lost: BackendLost, losses: int, *, begun: bool) -> int:
        """How often the model server was lost, this time included, if it is to be asked anew; else raises that."""
        if begun or losses == _LOSSES:
            raise lost
        self._observe(AskedAnew(request_id, lost.summary))
        return losses + 1


def _call(request: ChatRequest, turn: Turn, model: str | None, sampling: JsonObject) -> ModelCall:
    # llama-server refuses logprobs in a stream with tools; whole, it has them.
    stream = request.stream or not request.body.get("logprobs")
    return ModelCall(
        request,
        stream=stream,
        respond=turn.respond,
        added=turn.added,
        demanded=turn.held_to,
        model=model,
        usage=True,
        sampling=sampling,
    )


def _report(turn: Turn, answers: list[Settled], spent: Spent) -> Report:
    outcome = Outcome.furthest(settled.outcome for settled in answers)
    marks = tuple(mark for settled in answers for mark in settled.marks)
    return Report(outcome, turn.attempt, turn.faults, marks, spent.tokens or None)
