"""All guardrails of a run behind two methods, for an agent loop that calls its model and executes tools itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.core.guardrails import FinalAnswer, Outcome
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.core.workflow.corrections import MAX_TIER
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import ToolCallError
from forge_proxy.core.workflow.run import (
    Limits,
    RunState,
    TerminalCall,
    ToolOutcome,
    apply_calls,
    apply_correction,
    apply_outcome,
    check_order,
    close_batch,
)
from forge_proxy.workflows.sdk.client import LLMResponse, TextResponse, reasoning_of
from forge_proxy.workflows.sdk.guardrail_components import Nudge, ResponseValidator

_KINDS = {MessageType.STEP_NUDGE: "step", MessageType.PREREQUISITE_NUDGE: "prerequisite"}


@dataclass(frozen=True, slots=True)
class CheckedResponse:
    """How to proceed after a response: execute `tool_calls`, or send the `nudge`; exactly one is set.

    Add `messages` to the conversation in either case.
    """

    tool_calls: tuple[ToolCall, ...]
    nudge: Nudge | None
    messages: tuple[Message, ...]


class Guardrails:
    """The guardrails of one run of a workflow, whose tools need no callables here.

    Call `check` for each response of the model and `record` with the outcomes of the accepted calls.
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
        """The terminal call that ended the run; None while the run continues."""
        return self._state.ended

    def check(self, response: LLMResponse) -> CheckedResponse:
        """Check a response and return how to proceed.

        Raises `ToolCallError`, `StepEnforcementError` or `PrerequisiteError` if a limit is exceeded, `RuntimeError` if
        the outcomes of accepted calls have not been recorded yet.
        """
        if self._state.batch is not None:
            raise RuntimeError("call record() with the outcomes of the calls before the next check()")
        validated = self._validator.validate(response)
        before = len(self._state.messages)
        if validated.nudge is not None:
            return self._correct(response, validated.nudge, before)
        calls = validated.tool_calls or ()
        state_with_calls = apply_calls(
            self._state, FinalAnswer(None, calls, "tool_calls", Outcome.CLEAN, 1), reasoning_of(response) or ""
        )
        self._state = check_order(state_with_calls, self._workflow, self._limits)
        added = self._state.messages[before:]
        if self._state.batch is not None:
            return CheckedResponse(calls, None, added)
        kind = _KINDS[added[-1].type]
        return CheckedResponse(
            (), Nudge.of(kind, added, min(self._state.premature, MAX_TIER) if kind == "step" else 0), added
        )

    def record(self, outcomes: Sequence[ToolOutcome]) -> tuple[Message, ...]:
        """Record the outcomes of the accepted calls, in their order, and return the result messages for the model.

        Raises `ToolExecutionError` if `max_tool_errors` is exceeded.
        """
        batch = self._state.batch
        if batch is None or len(outcomes) != len(batch.calls):
            wanted = len(batch.calls) if batch else 0
            raise ValueError(f"expected the outcomes of {wanted} calls, got {len(outcomes)}")
        before = len(self._state.messages)
        for place, outcome in enumerate(outcomes):
            self._state = apply_outcome(self._state, place, outcome)
        self._state = close_batch(self._state, self._workflow, self._limits)
        return self._state.messages[before:]

    def summary_hint(self) -> str:
        """Return a summary of the completed steps for the model."""
        return self._state.steps.summary_hint()

    def _correct(self, response: LLMResponse, nudge: Nudge, before: int) -> CheckedResponse:
        attempts = self._state.retries + 1
        if attempts > self._limits.max_retries:
            raw_response = (
                response.content if isinstance(response, TextResponse) else "\n".join(map(_call_text, response))
            )
            raise ToolCallError(
                f"no valid tool call in {attempts} responses: {nudge.content}", raw_response, attempts=attempts
            )
        self._state = apply_correction(self._state, nudge.messages, Fault.NO_CALL, held=False)
        return CheckedResponse((), nudge, self._state.messages[before:])


def _call_text(call: ToolCall) -> str:
    return f"{call.tool}{call.arguments}"
