"""Collects the record of one request while the engine works on it.

This belongs in `engine` because only the engine knows when an attempt begins, when the model server is done, and why an
attempt is retried.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.chat import ChatRequest, ResolvedModel
from forge_proxy.core.guardrails import FinalAnswer
from forge_proxy.core.guardrails.report import Report, cut_name
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.requests.records import (
    NO_TOKENS,
    UNKNOWN_ORIGIN,
    AttemptRecord,
    CallRecord,
    RequestOrigin,
    RequestRecord,
    RequestResult,
    read_token_counts,
)
from forge_proxy.core.tracing import TraceContext
from forge_proxy.engine.ports import Clock
from forge_proxy.engine.request_activity import RequestActivity

_MAX_CALLS = 128
"""Calls of one response that are recorded. Each costs a row of the ledger."""


class RequestRecorder:
    """The record of one request, from its arrival on."""

    def __init__(
        self,
        clock: Clock,
        request_id: str,
        request: ChatRequest | str | None,
        origin: RequestOrigin = UNKNOWN_ORIGIN,
        trace: TraceContext | None = None,
    ) -> None:
        """`request` is only the name of the model if the request is relayed: the engine does not read it."""
        self.request_id = request_id
        self.origin = origin
        self._trace = trace
        self._attempt_started = 0.0
        self._clock = clock
        self._began = clock.now()
        chat = request if isinstance(request, ChatRequest) else None
        self.model = request.model if isinstance(request, ChatRequest) else request
        """The model that the client names."""
        self.served: str | None = None
        """The model that answers."""
        self.tools = len(chat.tools) if chat else 0
        self.activity = RequestActivity(clock, is_streamed=chat is not None and chat.stream)
        self._first_output: float | None = None
        self._exchanges = 0
        self._is_attempt_open = False
        self._exchange_began = 0.0
        self._backend_seconds = 0.0
        self._attempt_seconds = 0.0
        self._attempt_tokens = NO_TOKENS
        self._attempts: list[AttemptRecord] = []
        self._calls: list[CallRecord] = []

    @property
    def seconds(self) -> float:
        """Seconds since the arrival of the request."""
        return self._clock.now() - self._began

    @property
    def is_open(self) -> bool:
        """Whether the model server is working on a call."""
        return self._exchanges > 0

    @property
    def attempt(self) -> int:
        """The number of the current attempt, from 1."""
        return len(self._attempts) + 1

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of the attempts before."""
        return tuple(attempt.fault for attempt in self._attempts if attempt.fault is not None)

    @property
    def traceparent(self) -> str:
        """The header of that name for the model server in the current attempt; empty if traces are not exported."""
        return self._trace.traceparent(self.attempt) if self._trace is not None else ""

    def set_model(self, model: ResolvedModel) -> None:
        """Record the model that answers."""
        self.model, self.served = model.requested, model.served

    def mark_output(self) -> None:
        """Record that a piece of the response is sent now."""
        self.activity.released = self.activity.received
        if self._first_output is None:
            self._first_output = self._clock.now() - self._began

    def begin_exchange(self, *, streams: bool = False) -> None:
        """Record that the model server receives a call, and whether its response is streamed.

        Drafts overlap: time counts while at least one is open.
        """
        if self._exchanges == 0:
            self._exchange_began = self._clock.now()
            if not self._is_attempt_open:
                self._attempt_started = self._exchange_began - self._began
            self._is_attempt_open = True
            self.activity.begin_call(streams=streams)
        self._exchanges += 1

    def end_exchange(self, usage: JsonObject | None) -> None:
        """Record that the response to a call has ended, with its token counts."""
        if not self._exchanges:  # the request ended before
            return
        self._exchanges -= 1
        if self._exchanges == 0:
            seconds = self._clock.now() - self._exchange_began
            self._backend_seconds += seconds
            self._attempt_seconds += seconds
        counts = read_token_counts(usage)
        self._attempt_tokens += counts
        self.activity.prompt_tokens = counts.prompt or self.activity.prompt_tokens

    def end_attempt(self, fault: str | None = None, tool: str = "", reason: str = "") -> None:
        """Record that an attempt has ended: with the fault for which it is retried, or as the last one."""
        number = len(self._attempts) + 1
        seconds, tokens, started = self._attempt_seconds, self._attempt_tokens, self._attempt_started
        attempt = AttemptRecord(number, fault, tool, reason, seconds, tokens, started)
        self._attempts.append(attempt)
        self._attempt_seconds, self._attempt_tokens = 0.0, NO_TOKENS
        self._is_attempt_open = False
        self.activity.begin_attempt()

    def add_calls(self, answers: Sequence[FinalAnswer]) -> None:
        """Record the calls that are delivered."""
        calls = [CallRecord(cut_name(call.tool), answer.outcome) for answer in answers for call in answer.calls]
        self._calls += calls[: _MAX_CALLS - len(self._calls)]

    def finish_answered(self, report: Report, queued: float) -> RequestRecord:
        """Return the record of a request that was answered."""
        return self._finish(report.outcome.value, queued, interventions=report.descriptions)

    def finish_failed(self, error: str, queued: float) -> RequestRecord:
        """Return the record of a request that ended in an error."""
        return self._finish("failed", queued, error=error)

    def finish_attempt(self, error: str, queued: float) -> RequestRecord:
        """Return the record of an attempt of a run. `error` is empty if it ended with a response, also a wrong one."""
        return self._finish("failed" if error else "clean", queued, error=error)

    def finish_abandoned(self, queued: float) -> RequestRecord:
        """Return the record of a request whose client disconnected."""
        return self._finish("abandoned", queued)

    def _finish(
        self, result: RequestResult, queued: float, *, interventions: tuple[str, ...] = (), error: str = ""
    ) -> RequestRecord:
        while self._exchanges:  # the generator that would report its end is closed later
            self.end_exchange(None)
        if self._is_attempt_open:
            self.end_attempt()
        return RequestRecord(
            self.request_id,
            self.origin,
            self.model,
            self.served,
            self.activity.is_streamed,
            self.tools,
            result,
            self.seconds,
            queued,
            self._first_output,
            self._backend_seconds,
            tuple(self._attempts),
            tuple(self._calls),
            interventions,
            error,
            self._trace,
        )
