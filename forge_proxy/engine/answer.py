"""The loop of one request: wait for a slot, send it, release what may be sent, judge the response, retry.

`Engine.answer` yields the chunks of the response as they are released and a `Report` at the end. It serves streaming
and non-streaming requests alike.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.background import Priority
from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.chat import ChatRequest, ModelCall, ResolvedModel
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import (
    CallSuppressor,
    FinalAnswer,
    GuardPolicy,
    Retry,
    Turn,
    open_turn,
)
from forge_proxy.core.guardrails.attempt import FinishedAttempt
from forge_proxy.core.guardrails.client_history import ClientHistory, ToolSetRecord
from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.core.guardrails.learned_policy import LearnedPolicy
from forge_proxy.core.guardrails.report import Report, summary_of
from forge_proxy.core.guardrails.retry_history import RetryHistory
from forge_proxy.core.guardrails.usage import ESTIMATED, TokenUsage, estimate_usage
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.requests.records import UNKNOWN_ORIGIN, RequestOrigin
from forge_proxy.core.rescue import LearnedForm
from forge_proxy.core.sampling import SamplingPolicy
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.active_requests import ActiveRequest
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.attempts import AttemptRunner
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.capabilities import Capabilities
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.config import EngineConfig, EnginePolicies
from forge_proxy.engine.content_recorder import ContentRecorder
from forge_proxy.engine.context_fitting import ContextFitter, PromptSize
from forge_proxy.engine.events import (
    ContextCompacted,
    RequestAbandoned,
    RequestAnswered,
    RequestFailed,
    ToolsUnvalidated,
)
from forge_proxy.engine.exchange import BackendExchange, BackendSession, CallResent, EngineDeps
from forge_proxy.engine.learned_forms import LearnedForms
from forge_proxy.engine.models import Models
from forge_proxy.engine.ports import ContentObserver
from forge_proxy.engine.relay import RequestRelay
from forge_proxy.engine.request_context import REQUEST_ID
from forge_proxy.engine.request_recorder import RequestRecorder
from forge_proxy.engine.respond_overhead import RespondOverhead
from forge_proxy.engine.sampling import Sampling
from forge_proxy.engine.shielded_tasks import ShieldedTasks
from forge_proxy.engine.unvalidated_tools import UnvalidatedTools

AnswerEvent: TypeAlias = Chunk | ContextCompacted | Report


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """An accepted attempt: its calls, and the model's reasoning."""

    answer: FinalAnswer
    reasoning: str


class Engine:
    """Answers requests through one backend."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        backend, clock, observe = config.backend, config.clock, config.observe
        self._backend = CompatibleBackend(backend, observe, config.dialect)
        self._respond_overhead = RespondOverhead(self._backend)
        self._clock = clock
        self._observe = observe
        self._observe_content = config.observe_content
        self._tracer = config.tracer
        self._admission = config.admission or Admission(backend, clock, observe)
        self._unvalidated_tools = UnvalidatedTools()
        self._guardrails = config.guardrails
        self.models = config.models or Models(backend, clock)
        self.active = config.active
        self.relay = RequestRelay(backend, self._admission, self.models, clock, observe, self.active)
        self.budgets = config.budgets or Budgets(backend, clock, observe)
        self.fitting = ContextFitter(self.budgets, self._backend.count_tokens, observe, config.compaction)
        self.sampling = config.sampling or Sampling(observe)
        self.learned = LearnedPolicy()
        self.client_history = ClientHistory()
        self.retry_history = RetryHistory()
        self.turns = config.turns
        self._changes = ShieldedTasks()
        self._deps = EngineDeps(
            self._backend, self.fitting, self.learned, config.reader, observe, self.turns, memory=config.memory,
            retry_history=self.retry_history,
        )  # fmt: skip
        self.capabilities = Capabilities(backend, self._backend, config.dialect, config.cards)
        self.forms = LearnedForms(
            config.templates, clock, observe, self.capabilities.template_of, self.capabilities.keep_template
        )

    @property
    def policies(self) -> EnginePolicies:
        """The policies in force."""
        return EnginePolicies(self._guardrails, self.budgets.policy, self.fitting.policy, self.sampling.policy)

    def with_guardrails(self, policy: GuardPolicy) -> Engine:
        """Return another engine with this policy over the same backend, which has learned nothing yet.

        Both share the slots.
        """
        return Engine(replace(self._config, guardrails=policy, admission=self._admission))

    async def apply(
        self,
        *,
        guardrails: GuardPolicy | None = None,
        budget: BudgetPolicy | None = None,
        compaction: CompactionPolicy | None = None,
        sampling: SamplingPolicy | None = None,
    ) -> None:
        """Replace the given policies for later requests; the others stay in force.

        A new budget may restart the model server. Raises `BudgetUnchanged` if that fails; no policy is then replaced.
        Cancelling this call does not cancel the change: the model server would complete its restart in any case.
        """

        async def change() -> None:
            if budget is not None:
                await self.budgets.switch(budget)
            # No `await` from here on: a request would find some of the policies replaced.
            self._guardrails = guardrails or self._guardrails
            self.fitting.policy = compaction or self.fitting.policy
            self.sampling.policy = sampling or self.sampling.policy

        await self._changes.run(change())

    @property
    def queue(self) -> FairQueue:
        """The running and waiting requests, for inspection."""
        return self._admission.queue

    async def test(self, model: str) -> CapabilityCard:
        """Test a model, in a slot like a request, and store the result. Raises `BackendFault` or `Overloaded`."""
        async with self._admission.slot("self-test", model):
            return await self.capabilities.test(model, await self.forms.learn(model))

    async def answer(
        self,
        request: ChatRequest,
        policy: GuardPolicy,
        *,
        request_id: str,
        client: str = "",
        origin: RequestOrigin = UNKNOWN_ORIGIN,
        content: ContentObserver | None = None,
    ) -> AsyncGenerator[AnswerEvent]:
        """Yield the chunks of the response as they are released, then a `Report`.

        `content` receives the text of this request.

        A `ContextCompacted` precedes them for each compaction. Closing the generator stops the generation.

        Slots are shared fairly between clients; any string identifies a client. Raises `Overloaded`,
        `ContextBudgetExceeded`, `UnknownModel`, `UnsupportedModelError`, a `BackendFault`, `ToolChoiceUnsatisfied`,
        `ToolCallInvalid`, `EmptyAnswer` or `RequestCancelled`; if chunks have been yielded by then, the response is
        incomplete.
        """
        request = self._complete(request)
        trace = self._tracer.begin(origin.traceparent) if self._tracer else None
        recorder = RequestRecorder(self._clock, request_id, request, origin, trace)
        observers = [one for one in (self._observe_content, content) if one is not None]
        collected = ContentRecorder(observers, request_id, request) if observers else None
        session = self._session(client, recorder, origin.priority, collected)
        slot, done = session.slot, False
        try:
            async with (
                self._admit(session, request) as model,
                aclosing(
                    self._respond(request, policy, model, session, await self._form_of(request, policy, model))
                ) as events,
            ):
                async for event in events:
                    if isinstance(event, Report):
                        done, event = True, event.with_dropped(request)
                        record = session.finish(recorder.finish_answered(event, slot.queued))
                        self._observe(RequestAnswered(record, event))
                        self.active.remove(recorder)
                    elif isinstance(event, Chunk) and event.progress is None:
                        recorder.mark_output()
                        if collected is not None:
                            collected.add_received(event)
                    yield event
        except ForgeError as error:
            if done:  # cancelled while its end was being sent
                raise
            done = True
            failed = recorder.finish_failed(summary_of(error, request), slot.queued)
            self._observe(RequestFailed(session.finish(failed)))
            raise
        finally:
            if not done:
                self._observe(RequestAbandoned(session.finish(recorder.finish_abandoned(slot.queued))))

    async def measure(self, request: ChatRequest) -> PromptSize:
        """Return the size of a request's prompt, estimated if the backend cannot count. Raises `UnknownModel`."""
        model = await self.models.resolve(request.model)
        return await self.fitting.measure(ModelCall(request, stream=request.stream, resolved=model))

    async def count(self, request: ChatRequest) -> int | None:
        """Return the number of prompt tokens of a request; None if the backend cannot count them."""
        model = await self.models.resolve(request.model)
        try:
            return await self._backend.count_tokens(ModelCall(request, stream=request.stream, resolved=model))
        except BackendFault:  # the request itself will raise it
            return None

    async def attempt(
        self, request: ChatRequest, turn: Turn, *, run_id: str = ""
    ) -> AsyncGenerator[Chunk | Retry | AttemptResult]:
        """Run one attempt in its own slot, for a workflow that runs the loop itself. Each run is a client of its own.

        Yields the chunks as they arrive, then the result. Raises like `answer`.
        """
        request = self._complete(request)
        trace = self._tracer.begin_model_call(run_id) if self._tracer else None
        recorder = RequestRecorder(self._clock, turn.request_id, request, trace=trace)
        session = self._session(run_id, recorder)
        error = ""
        try:
            async with self._admit(session, request) as model:
                turn = replace(turn, form=await self._form_of(request, turn.policy, model))
                runner = AttemptRunner(session, request, turn, model, raw=True)
                async with aclosing(runner.attempt()) as events:
                    async for event in events:
                        if isinstance(event, FinishedAttempt):
                            yield AttemptResult(event.answers[0], runner.reasoning)
                        elif not isinstance(event, ContextCompacted):
                            yield event
        except ForgeError as failure:
            error = summary_of(failure, request)
            raise
        finally:
            if self._tracer is not None:
                self._tracer.end_model_call(run_id, recorder.finish_attempt(error, session.slot.queued))

    async def stream_unguarded(
        self, request: ChatRequest, *, request_id: str, client: str = ""
    ) -> AsyncGenerator[Chunk]:
        """Yield the chunks of a response as the backend sends them, for code that judges the response itself.

        Raises like `answer`, and `UnreadCall`.
        """
        request = self._complete(request)
        session = self._session(client, RequestRecorder(self._clock, request_id, request))
        async with self._admit(session, request) as model:
            call = ModelCall(request, request.stream, resolved=model, usage=True)
            async with aclosing(_relay(session, call)) as events:
                async for event in events:
                    if isinstance(event, Chunk):
                        yield event

    def tool_mode(self, model: str | None = None) -> Literal["native", "prompt"]:
        """Return how tools are presented to that model, as far as is known.

        Raises `UnknownModel` if the catalog has no such name.
        """
        return self._backend.tool_mode(self.models.resolve_cached(model).served)

    def _complete(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the values of the tier that it names, if it names one."""
        tier = self.models.tier_of(request.model)
        return request if tier is None else tier.complete(request)

    def _session(
        self,
        client: str,
        recorder: RequestRecorder,
        priority: Priority = "interactive",
        content: ContentRecorder | None = None,
    ) -> BackendSession:
        return BackendSession(self._deps, self._admission.slot(client, priority=priority), recorder, content)

    @asynccontextmanager
    async def _admit(self, session: BackendSession, request: ChatRequest) -> AsyncGenerator[ResolvedModel]:
        """Hold a slot for a request inside this block and yield its model, resolved once for all that follows.

        Raises `UnknownModel` before the request is queued, `RequestCancelled`, and like `Slot`, `Models.resolve` and
        `Sampling.values_for`.
        """
        REQUEST_ID.set(session.request_id)
        session.slot.model = self.models.resolve_cached(request.model).served or ""
        with ActiveRequest(self.active, session.recorder, session.slot):
            async with session:
                yield await self._resolve(session.recorder, request)

    async def _resolve(self, recorder: RequestRecorder, request: ChatRequest) -> ResolvedModel:
        model = await self.models.resolve(request.model)  # a queued request must not reach the backend
        recorder.set_model(model)
        return replace(model, sampling=self.sampling.values_for(model.served))

    async def _form_of(self, request: ChatRequest, policy: GuardPolicy, model: ResolvedModel) -> LearnedForm | None:
        """Return the form learned from the model's chat template, if calls may have to be recovered from text."""
        is_needed = request.tools and request.tool_choice.mode != "none" and policy.enabled.rescue
        return await self.forms.of(model.served) if is_needed else None

    def _respond(
        self,
        request: ChatRequest,
        policy: GuardPolicy,
        model: ResolvedModel,
        session: BackendSession,
        form: LearnedForm | None,
    ) -> AsyncGenerator[AnswerEvent]:
        """Respond to an admitted request: with guardrails if it offers tools, otherwise by relaying."""
        record = self.client_history.record_request(request, self._clock.now())
        heuristics = self.learned.select_heuristics(policy, model.served, request.messages)
        turn = open_turn(
            request, policy, request_id=session.request_id,
            nudge_text=Heuristic.TEXT_RESPONSES in heuristics.corrected,
            opens_reasoning=self.learned.opens_reasoning(model.served),
            heuristics=heuristics,
            unanswered=record.find_unanswered_tools(),
            form=form,
        )  # fmt: skip
        if turn is not None:
            record.terminal = turn.terminal
            return self._guard(AttemptRunner(session, request, turn, model), session, record)
        suppressor = CallSuppressor() if request.tools and policy.enabled.any else None
        verbatim = suppressor is None and not request.is_converted
        buffered = not request.stream or request.is_assembled
        call = ModelCall(request, request.stream, resolved=model, verbatim=verbatim, buffered=buffered)
        return _relay(session, call, suppressor)

    async def _guard(
        self, runner: AttemptRunner, session: BackendSession, record: ToolSetRecord
    ) -> AsyncGenerator[AnswerEvent]:
        """Run the attempts of a guarded request until one is accepted. All use the same slot."""
        finished: FinishedAttempt | None = None
        session.recorder.activity.is_guarded = True
        if unchecked := await self._unvalidated_tools.find_unreported(runner.turn):
            self._observe(ToolsUnvalidated(runner.turn.request_id, unchecked))
        while finished is None:
            async with aclosing(runner.attempt()) as events:
                async for event in events:
                    if isinstance(event, Chunk | ContextCompacted):
                        yield event
                    elif isinstance(event, FinishedAttempt):
                        finished = event
        call, turn = runner.build_call(), runner.turn
        # Counted while the slot is held: after it is released, the server may load another model.
        usage = await self._usage(call, runner.spent)
        if is_estimated := usage is None and not call.request.stream:
            usage = estimate_usage(call.request, finished.answers, runner.reasoning)
        session.slot.leave()  # the backend is done; other requests must not wait for a client that reads slowly
        for chunk in finished.chunks:
            yield chunk
        yield Chunk(usage=usage)
        for answer in finished.answers:
            self.learned.record_answer(call.model.served, turn, answer)
        record.record_answers(turn, finished.answers)
        session.recorder.add_calls(finished.answers)
        report = Report.of_answers(turn, finished.answers, runner.spent.tokens)
        further = (*runner.interventions, ESTIMATED) if is_estimated else runner.interventions
        yield replace(report, interventions=(*report.interventions, *further)) if further else report

    async def _usage(self, call: ModelCall, spent: TokenUsage) -> JsonObject | None:
        """The usage of the delivered attempt; if the client receives it, without the tokens of the `respond` tool."""
        usage = spent.usage()
        if usage is None or (call.request.stream and not call.request.include_usage):
            return usage
        return spent.usage(await self._respond_overhead.count_added(call))


async def _relay(
    session: BackendSession, call: ModelCall, suppressor: CallSuppressor | None = None
) -> AsyncGenerator[AnswerEvent]:
    """Relay the response to a call that needs no guardrails except, at most, the suppression of calls.

    The chunks of a whole response are kept until its end, so that it can be retried: some servers stream it.
    """
    exchange = BackendExchange(session, call)
    has_begun = False
    whole: list[Chunk] = []
    if session.content is not None:
        session.content.begin_relay(lambda: (exchange.call, exchange.usage), suppressor)
    async with aclosing(exchange.events(lambda _: not has_begun)) as events:
        async for event in events:
            if isinstance(event, CallResent):
                whole.clear()
            elif isinstance(event, ContextCompacted) or event.progress is not None:
                yield event
            elif call.stream:
                has_begun = True
                yield suppressor.take(event) if suppressor else event
            else:
                whole.append(event)
            del event  # a slow client may keep the response waiting at its end, with a chunk of megabytes
    session.slot.leave()
    for chunk in whole:
        yield suppressor.take(chunk) if suppressor else chunk
    exchange.calibrate()
    yield Report.of_relay(suppressor.interventions if suppressor else ())
