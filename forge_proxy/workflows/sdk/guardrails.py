"""All guardrails of a run behind two methods, for a loop that asks its model and executes its tools itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.core.guardrails import FinalAnswer, Outcome
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.core.workflow.corrections import TIERS
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import ToolCallError
from forge_proxy.core.workflow.run import (
    Limits,
    RunState,
    TerminalCall,
    ToolOutcome,
    allowed,
    called,
    closed,
    corrected,
    executed,
)
from forge_proxy.workflows.sdk.client import LLMResponse, TextResponse, reasoning_of
from forge_proxy.workflows.sdk.guardrail_components import Nudge, ResponseValidator

_KINDS = {MessageType.STEP_NUDGE: "step", MessageType.PREREQUISITE_NUDGE: "prerequisite"}


@dataclass(frozen=True, slots=True)
class CheckedResponse:
    """What is to be done with an answer: execute `tool_calls`, or tell the model the `nudge`; exactly one is there.

    `messages` are what has to be added to the conversation in either case.
    """

    tool_calls: tuple[ToolCall, ...]
    nudge: Nudge | None
    messages: tuple[Message, ...]


class Guardrails:
    """The guardrails of one run of a workflow, whose tools need no callables here.

    `check` each answer of the model, `record` what came of the calls it lets through.
    """

    def __init__(self, workflow: Workflow, limits: Limits | None = None, rescue_enabled: bool = True) -> None:
        self._workflow = workflow
        self._limits = limits or Limits()
        self._validator = ResponseValidator(workflow.get_tool_specs(), rescue_enabled)
        self._state = RunState(())

    @property
    def completed_steps(self) -> tuple[str, ...]:
        """The tools that have succeeded."""
        return self._state.steps.completed

    @property
    def ended(self) -> TerminalCall | None:
        """The terminal call that has ended the run; None while it goes on."""
        return self._state.ended

    def check(self, response: LLMResponse) -> CheckedResponse:
        """What is to be done with an answer.

        Raises `ToolCallError`, `StepEnforcementError` or `PrerequisiteError` once a budget is spent, `RuntimeError`
        while calls that were let through wait to be recorded.
        """
        if self._state.batch is not None:
            raise RuntimeError("record() what came of the calls before the next check()")
        validated = self._validator.validate(response)
        before = len(self._state.messages)
        if validated.nudge is not None:
            return self._correct(response, validated.nudge, before)
        calls = validated.tool_calls or ()
        told = called(
            self._state, FinalAnswer(None, calls, "tool_calls", Outcome.CLEAN, 1), reasoning_of(response) or ""
        )
        self._state = allowed(told, self._workflow, self._limits)
        added = self._state.messages[before:]
        if self._state.batch is not None:
            return CheckedResponse(calls, None, added)
        kind = _KINDS[added[-1].type]
        return CheckedResponse(
            (), Nudge.of(kind, added, min(self._state.premature, TIERS) if kind == "step" else 0), added
        )

    def record(self, outcomes: Sequence[ToolOutcome]) -> tuple[Message, ...]:
        """What came of the calls that were let through, in their order; the results that the model is to be told.

        Raises `ToolExecutionError` once that budget is spent.
        """
        batch = self._state.batch
        if batch is None or len(outcomes) != len(batch.calls):
            wanted = len(batch.calls) if batch else 0
            raise ValueError(f"expected the outcomes of {wanted} calls, got {len(outcomes)}")
        before = len(self._state.messages)
        for place, outcome in enumerate(outcomes):
            self._state = executed(self._state, place, outcome)
        self._state = closed(self._state, self._workflow, self._limits)
        return self._state.messages[before:]

    def summary_hint(self) -> str:
        """What has been done, in words for the model."""
        return self._state.steps.summary_hint()

    def _correct(self, response: LLMResponse, nudge: Nudge, before: int) -> CheckedResponse:
        attempts = self._state.retries + 1
        if attempts > self._limits.max_retries:
            said = response.content if isinstance(response, TextResponse) else "\n".join(map(_written, response))
            raise ToolCallError(f"no valid tool call in {attempts} answers: {nudge.content}", said, attempts=attempts)
        self._state = corrected(self._state, nudge.messages, Fault.NO_CALL, held=False)
        return CheckedResponse((), nudge, self._state.messages[before:])


def _written(call: ToolCall) -> str:
    return f"{call.tool}{call.arguments}"
