"""Individual guardrails for other agent loops; each keeps the state of its part of a run.

They use the same values and functions as `WorkflowRunner`. `Guardrails` combines them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.guardrails import Accept, GuardPolicy, Retry, Switches, judge, open_turn
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.stream import Reply
from forge_proxy.core.workflow.corrections import MAX_TIER, build_prerequisite_nudges, build_step_nudges
from forge_proxy.core.workflow.definition import Prerequisite
from forge_proxy.core.workflow.steps import Steps, find_premature, find_unprepared
from forge_proxy.workflows.sdk.client import LLMResponse, TextResponse, reasoning_of


@dataclass(frozen=True, slots=True)
class Nudge:
    """A correction for the model. `messages` are all messages to add, first the failed response if it is new.

    `role` and `content` are those of the first correction among them. `kind` is "retry", "unknown_tool", "step" or
    "prerequisite"; `tier` is the firmness of a step nudge, from 1 to 3.
    """

    role: str
    content: str
    kind: str
    tier: int = 0
    messages: tuple[Message, ...] = ()

    @classmethod
    def of(cls, kind: str, messages: Sequence[Message], tier: int = 0) -> Nudge:
        """Create a nudge from the messages to add; those of role assistant are what it corrects."""
        correction = next(message for message in messages if message.role != "assistant")
        return cls(correction.role.value, correction.content, kind, tier, tuple(messages))


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Valid calls, or a nudge."""

    tool_calls: tuple[ToolCall, ...] | None
    nudge: Nudge | None
    needs_retry: bool


class ResponseValidator:
    """Validates a response: recovers calls from text, checks names, and arguments if it has the tools' schemas.

    Stateless: one instance can serve all conversations with these tools.
    """

    def __init__(self, tools: Iterable[ToolSpec | str], rescue_enabled: bool = True) -> None:
        specs = tuple(ToolSpec(tool) if isinstance(tool, str) else tool for tool in tools)
        self._request = ChatRequest({}, tools=specs, tool_choice=ToolChoice("required"))
        self._policy = GuardPolicy(enabled=Switches(rescue=rescue_enabled))

    def validate(self, response: LLMResponse) -> ValidationResult:
        """Return the valid calls of a response, or the nudge that corrects it."""
        # Ids for calls without one are derived from this; they must be unique in a conversation.
        turn = open_turn(self._request, self._policy, request_id=uuid.uuid4().hex, nudge_text=False)
        if turn is None:
            raise ValueError("name at least one tool")
        match judge(turn, _to_reply(response)):
            case Accept(settled):
                return ValidationResult(settled.calls, None, needs_retry=False)
            case Retry(turn=following, fault=fault):
                kind = "unknown_tool" if fault is Fault.UNKNOWN_TOOL else "retry"
                # A response cut off inside a call is retried without a correction.
                nudge = Nudge.of(kind, following.added) if following.added else Nudge("user", "", kind)
                return ValidationResult(None, nudge, needs_retry=True)
            case _:
                raise AssertionError("unreachable: a response with retries left is accepted or retried")


def _to_reply(response: LLMResponse) -> Reply:
    if isinstance(response, TextResponse):
        return Reply(text=response.content, finish="stop")
    return Reply(reasoning=reasoning_of(response), calls=tuple(replace(call, reasoning=None) for call in response))


class StepTracker:
    """Tracks the completed required steps, independently of the messages."""

    def __init__(self, required_steps: Sequence[str]) -> None:
        self.required_steps = tuple(required_steps)
        self.steps = Steps()

    def record(self, tool_name: str, args: JsonObject | None = None) -> None:
        """Record a successful call."""
        self.steps = self.steps.record(tool_name, args)

    @property
    def completed_steps(self) -> tuple[str, ...]:
        """The tools that have succeeded, required or not."""
        return self.steps.completed

    def is_satisfied(self) -> bool:
        """Return whether all required steps are completed."""
        return not self.pending()

    def pending(self) -> tuple[str, ...]:
        """Return the required steps that are not completed, in order."""
        return self.steps.pending(self.required_steps)

    def summary_hint(self) -> str:
        """Return a summary of the completed steps for the model."""
        return self.steps.summary_hint()


@dataclass(frozen=True, slots=True)
class StepCheck:
    """Whether a batch may be executed, and the nudge if it may not."""

    nudge: Nudge | None
    needs_nudge: bool


_ALLOWED = StepCheck(None, needs_nudge=False)


class StepEnforcer:
    """Refuses premature batches with increasingly firm nudges. Use one instance per conversation.

    `tool_prerequisites` has the format of `ToolDef`. Counts are of consecutive refusals; a limit is exhausted if its
    count exceeds it.
    """

    def __init__(
        self,
        required_steps: Sequence[str],
        terminal_tools: Iterable[str],
        tool_prerequisites: Mapping[str, Sequence[str | Mapping[str, str] | Prerequisite]] | None = None,
        max_premature_attempts: int = 3,
        max_prereq_violations: int = 2,
    ) -> None:
        self.terminal_tools = frozenset(terminal_tools)
        self.prerequisites = {
            tool: tuple(
                Prerequisite.parse(one, f"tool_prerequisites.{tool}[{place}]") for place, one in enumerate(all_)
            )
            for tool, all_ in (tool_prerequisites or {}).items()
        }
        self._tracker = StepTracker(required_steps)
        self._max_premature = max_premature_attempts
        self._max_violations = max_prereq_violations
        self.premature_attempts = 0
        self.prereq_violations = 0

    @property
    def required_steps(self) -> tuple[str, ...]:
        """The tools that must succeed before a terminal one."""
        return self._tracker.required_steps

    @property
    def premature_exhausted(self) -> bool:
        """Whether premature calls of terminal tools exceed their limit."""
        return self.premature_attempts > self._max_premature

    @property
    def prereq_exhausted(self) -> bool:
        """Whether calls without their prerequisites exceed their limit."""
        return self.prereq_violations > self._max_violations

    @property
    def completed_steps(self) -> tuple[str, ...]:
        """The tools that have succeeded."""
        return self._tracker.completed_steps

    def check(self, tool_calls: Sequence[ToolCall]) -> StepCheck:
        """Check whether a batch calls a terminal tool before the required steps are completed."""
        found = find_premature(self, self._tracker.steps, tool_calls)
        if found is None:
            return _ALLOWED
        self.premature_attempts += 1
        nudges = build_step_nudges(found, tool_calls, self.terminal_tools, self.premature_attempts)
        return StepCheck(Nudge.of("step", nudges, min(self.premature_attempts, MAX_TIER)), needs_nudge=True)

    def check_prerequisites(self, tool_calls: Sequence[ToolCall]) -> StepCheck:
        """Check whether a batch calls a tool before its prerequisites; calls in the same batch do not count."""
        found = find_unprepared(self, self._tracker.steps, tool_calls)
        if found is None:
            return _ALLOWED
        self.prereq_violations += 1
        return StepCheck(Nudge.of("prerequisite", build_prerequisite_nudges(found, tool_calls)), needs_nudge=True)

    def record(self, tool_name: str, args: JsonObject | None = None) -> None:
        """Record a successful call."""
        self._tracker.record(tool_name, args)

    def is_satisfied(self) -> bool:
        """Return whether all required steps are completed."""
        return self._tracker.is_satisfied()

    def pending(self) -> tuple[str, ...]:
        """Return the required steps that are not completed."""
        return self._tracker.pending()

    def reset_premature(self) -> None:
        """Reset the count after a successful batch."""
        self.premature_attempts = 0

    def reset_prereq_violations(self) -> None:
        """Reset the count after a successful batch."""
        self.prereq_violations = 0

    def summary_hint(self) -> str:
        """Return a summary of the completed steps for the model."""
        return self._tracker.summary_hint()


class ErrorTracker:
    """Counts consecutive responses without a valid call, and consecutive batches with a failed tool.

    Use one instance per conversation.
    """

    def __init__(self, max_retries: int = 3, max_tool_errors: int = 2) -> None:
        self._max_retries = max_retries
        self._max_tool_errors = max_tool_errors
        self.retries = 0
        self.tool_errors = 0

    @property
    def retries_exhausted(self) -> bool:
        """Whether the responses without a valid call exceed `max_retries`."""
        return self.retries > self._max_retries

    @property
    def tool_errors_exhausted(self) -> bool:
        """Whether the batches with a failed tool exceed `max_tool_errors`."""
        return self.tool_errors > self._max_tool_errors

    def record_retry(self) -> None:
        """Count a response without a valid call."""
        self.retries += 1

    def reset_retries(self) -> None:
        """Reset the count after a response with valid calls."""
        self.retries = 0

    def record_result(self, success: bool, is_soft_error: bool = False) -> None:
        """Record an executed batch. A soft error (`ToolResolutionError`) changes nothing."""
        if success:
            self.reset_errors()
        elif not is_soft_error:
            self.tool_errors += 1

    def reset_errors(self) -> None:
        """Reset the count after a successful batch."""
        self.tool_errors = 0
