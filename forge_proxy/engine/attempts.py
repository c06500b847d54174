"""Runs the attempts of one guarded request one at a time: sends each and judges its response.

`Engine` retries them to answer a client; for a workflow, each attempt is one iteration of its loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from forge_proxy.core.backend_errors import BackendFault, ContextOverflow, UnreadCall
from forge_proxy.core.budget_errors import ContextBudgetExceeded
from forge_proxy.core.chat import ChatRequest, ModelCall, ResolvedModel, ToolSpec
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import Intervention, Retry, Turn, judge_unparsed_call, without_corrections
from forge_proxy.core.guardrails.attempt import Attempt, FinishedAttempt
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.report import cut_name
from forge_proxy.core.guardrails.split_chunk import split_chunk
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.guardrails.usage import TokenUsage
from forge_proxy.core.stream import Chunk, Reply
from forge_proxy.engine.drafts import DraftedExchange
from forge_proxy.engine.events import AttemptRetried, ContextCompacted, LoopDetected
from forge_proxy.engine.exchange import BackendExchange, BackendSession, CallResent
from forge_proxy.engine.judging import judge_attempt
from forge_proxy.engine.pacing import Pace
from forge_proxy.engine.parse_replies import parse_replies
from forge_proxy.wire.backends.openai.request import LIMITS


class AttemptRunner:
    """Runs the attempts of one request, beginning with that of `turn`.

    If `raw`, chunks are yielded as the backend sends them; otherwise only those that the stream gate releases.
    """

    def __init__(
        self,
        session: BackendSession,
        request: ChatRequest,
        turn: Turn,
        model: ResolvedModel,
        *,
        raw: bool = False,
    ) -> None:
        self._session = session
        self._deps = session.deps
        self._request: ChatRequest = request
        self._model = model
        self._raw = raw
        self._attempt = Attempt(turn, request.choices)
        self._room: int | None = None
        """Completion tokens to request if the client set no limit and the model server's own limit cut a response:
        those that fit beside the prompt of the latest attempt, which may have been compacted.
        """
        self.turn = turn
        """The turn of the latest attempt; after a `Retry`, that of the next one."""
        self.spent = TokenUsage()
        self.interventions: tuple[Intervention, ...] = ()
        """Interventions that concern no single answer."""

    async def attempt(self) -> AsyncGenerator[Chunk | ContextCompacted | Retry | FinishedAttempt]:
        """Run one attempt and yield its result last. Closing it stops the generation. Raises like `Engine.answer`.

        A context compacted for one attempt stays compacted for the next, so the model server's prefix cache matches.
        """
        exchange = self._open_exchange()
        verdict: Retry | FinishedAttempt | None = None
        written = ""
        try:
            async with aclosing(self._receive(exchange)) as events:
                async for event in events:
                    yield event
            exchange.calibrate()
            if exchange.interventions:
                self.interventions += exchange.interventions
            verdict = await self._judge(exchange)
        except (BackendFault, ContextBudgetExceeded) as fault:
            written = fault.written if isinstance(fault, UnreadCall) else ""
            verdict = self._after_fault(fault)
            if verdict is None:
                raise
        finally:
            self._record_content(exchange, verdict, written)
        if isinstance(verdict, Retry):
            verdict = replace(verdict, turn=self._deps.retry_history.adapt(verdict.turn, self._model.served))
            tool, reason = cut_name(verdict.tool), verdict.reason
            self._session.recorder.end_attempt(verdict.fault.value, tool, reason)
            self._deps.observe(AttemptRetried(self.turn.request_id, self.turn.attempt, verdict.fault, tool, reason))
            self.turn = verdict.turn
            self._attempt = Attempt(self.turn, self._request.choices, after=self._attempt)
        yield verdict

    @property
    def reasoning(self) -> str:
        """The model's reasoning in the latest attempt, as far as the backend reports it separately."""
        return "".join(reply.reasoning or "" for reply in self._attempt.replies())

    def build_call(self) -> ModelCall:
        """Return the call that an attempt sends to the backend."""
        request = self._request
        if self._room is not None and all(request.body.get(name) is None for name in LIMITS):
            request = replace(request, body={**request.body, "max_tokens": self._room}, limit=self._room)
        if self.turn.faults:
            request = self._lower_temperature(request)
        required = self._constrained_tools() if self.turn.may_be_constrained else ()
        # llama-server rejects logprobs in a stream with tools, but returns them in a non-streaming response.
        stream = request.stream or not request.body.get("logprobs")
        return ModelCall(
            request,
            stream=stream,
            respond=self.turn.respond,
            added=self.turn.added,
            required_tools=required,
            grammar_tool=self.turn.constrained_text if required else None,
            resolved=self._model,
            usage=True,
        )

    def _record_content(self, exchange: BackendExchange, verdict: Retry | FinishedAttempt | None, written: str) -> None:
        """Record the text of the attempt. `written` is that of a call that the model server could not parse."""
        content = self._session.content
        if content is not None:
            call = self._deps.backend.adapt(exchange.call)
            replies = [Reply(text=written)] if written else self._attempt.replies()
            content.end_attempt(call, replies, exchange.usage, self.turn, verdict)

    def _open_exchange(self) -> BackendExchange:
        """Return the exchange of the next attempt: with drafts if it is the first and slots are free."""
        call, turn = self.build_call(), self.turn
        if turn.policy.drafts > 1 and turn.attempt == 1 and self._may_differ(call):
            slots = (self._session.slot.spare() for _ in range(turn.policy.drafts - 1))
            if spares := [slot for slot in slots if slot is not None]:
                return DraftedExchange(self._session, call, turn, spares)
        return BackendExchange(self._session, call)

    def _may_differ(self, call: ModelCall) -> bool:
        is_greedy = call.request.body.get("temperature") == 0
        return not (self._raw or is_greedy or self._request.choices > 1)

    def _lower_temperature(self, request: ChatRequest) -> ChatRequest:
        """Return the request of a retry, with a lower temperature than the first attempt if the client sets none."""
        turn = self.turn
        temperature = turn.policy.coldest_retry
        is_open = request.body.get("temperature") is None
        if temperature is None or not (is_open and turn.retries_invalid_call):
            return request
        default = self._model.sampling.get("temperature")
        if isinstance(default, int | float):
            temperature = min(temperature, default)
        return replace(request, body={**request.body, "temperature": temperature})

    def _constrained_tools(self) -> tuple[ToolSpec, ...]:
        # A client that sets the format of the text must get it, also from a retry that ends in text.
        has_format = self._request.body.get("response_format") is not None
        return () if has_format and not self.turn.requires_call else self.turn.constrained_tools

    async def _receive(self, exchange: BackendExchange) -> AsyncGenerator[Chunk | ContextCompacted]:
        """Feed the response to the attempt until it is over, and yield what may be sent because of it."""
        pace = Pace(self._deps.turns)
        has_sent_raw = False
        async with aclosing(exchange.events(self._may_resend)) as events:
            async for event in events:
                if isinstance(event, ContextCompacted):
                    compacted = exchange.call.request  # its limit may be `_room`, which is not the client's
                    body = {**self._request.body, "messages": compacted.body["messages"]}
                    self._request = replace(self._request, body=body, messages=compacted.messages)
                    yield event
                elif isinstance(event, CallResent):
                    is_void = has_sent_raw or bool(self._attempt.sent_text)
                    has_sent_raw = False
                    after = None if is_void else self._attempt
                    self._attempt = Attempt(self.turn, self._request.choices, after=after)
                    if is_void:
                        yield Chunk(restarts=True)
                else:
                    if self._raw:
                        has_sent_raw = has_sent_raw or bool(event.deltas)
                        yield event
                    for piece in split_chunk(event):
                        await pace.begin_step()
                        out = self._attempt.take(piece)
                        pace.end_step()
                        if out is not None and not self._raw:
                            yield out
                    if self._attempt.is_over:
                        return

    def _may_resend(self, fault: BackendFault) -> bool:
        # A non-streaming client has received nothing, whatever the stream gate has released.
        is_final = self._request.stream or isinstance(fault, ContextOverflow)
        return not (is_final and self._attempt.sent_text)

    async def _judge(self, exchange: BackendExchange) -> Retry | FinishedAttempt:
        """Record what a finished attempt showed and return the verdict on it. Raises like `Attempt.judge`."""
        deps, turn, attempt = self._deps, self.turn, self._attempt
        for loop in attempt.loops:
            deps.observe(LoopDetected(turn.request_id, turn.attempt, loop, turn.policy.on_loop == "cut"))
        for usage in exchange.discarded:
            self.spent.add_discarded(usage)
        if exchange.usage is not None:
            self.spent.add(exchange.usage, corrected=bool(turn.added))
        extractions = await parse_replies(turn, attempt.replies(), deps.thorough, deps.turns)
        deps.learned.record_extractions(self._model.served, extractions)
        verdict = await self._judge_and_record(exchange.call, extractions)
        needs_room = self._room is not None or (isinstance(verdict, Retry) and verdict.fault is Fault.CUT)
        if isinstance(verdict, Retry) and needs_room and exchange.usage is not None:
            self._room = await deps.fitting.find_room(exchange.call, exchange.usage)
        return verdict

    async def _judge_and_record(self, call: ModelCall, extractions: Sequence[Extraction]) -> Retry | FinishedAttempt:
        """Return the verdict, and record whether the retry of an invalid call became valid. Raises like it."""
        try:
            verdict = await judge_attempt(self._attempt, extractions, self._deps.turns)
        except ForgeError:
            self._record_retry(call, is_valid=False)
            raise
        self._record_retry(call, is_valid=isinstance(verdict, FinishedAttempt) and verdict.is_valid)
        return verdict

    def _record_retry(self, call: ModelCall, *, is_valid: bool) -> None:
        if self.turn.faults and self.turn.retries_invalid_call:
            is_constrained = self._deps.backend.find_constraint(call) != "none"
            self._deps.retry_history.record(self._model.served, constrained=is_constrained, valid=is_valid)

    def _after_fault(self, fault: BackendFault | ContextBudgetExceeded) -> Retry | FinishedAttempt | None:
        """Return the verdict on an attempt that ended in a fault; None if the request ends in it."""
        match fault:
            case UnreadCall(written=written):
                return self._attempt.rescue(written) or judge_unparsed_call(self.turn, self._attempt.sent_text)
            case ContextOverflow() | ContextBudgetExceeded() if self.turn.added and not self._attempt.sent_text:
                return Retry(without_corrections(self.turn), Fault.NO_ROOM)
            case ContextOverflow() | ContextBudgetExceeded():
                return None
            case _:  # a workflow that runs the loop itself decides what follows
                return None if self._raw else self._attempt.settle_failed_retry()
