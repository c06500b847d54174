"""The state of a workflow run and its transitions. Pure; `workflows/runner.py` drives it.

A run is in one of three phases: it requests a response from the model, it executes a batch of calls, or it has ended.
The value contains everything that is needed to resume, so it can be stored after each transition and resumed by another
process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from forge_proxy.core.guardrails import FinalAnswer
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.jsontypes import JsonObject, is_integer
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.core.workflow.corrections import build_prerequisite_nudges, build_step_nudges
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import (
    PrerequisiteError,
    StepEnforcementError,
    ToolExecutionError,
)
from forge_proxy.core.workflow.steps import Steps, find_premature, find_unprepared

_NO_STEPS = Steps()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run.

    `max_iterations` limits the model's responses of all kinds. The others limit consecutive failures; the run ends with
    the failure that exceeds the limit.
    """

    max_iterations: int = 10
    max_retries: int = 3
    """Responses without a valid call."""
    max_tool_errors: int = 2
    max_premature: int = 3
    """Terminal calls before the required steps."""
    max_prereq_violations: int = 2

    def __post_init__(self) -> None:
        """Raise `ValueError` for a limit that is not an integer of at least 0."""
        for name in self.__slots__:
            value: object = getattr(self, name)
            if not is_integer(value) or value < 0:
                raise ValueError(f"{name} is {value!r}: expected a whole number, 0 or more")


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of a call: the text for the model, and whether the call counts as success or error.

    `soft` is for a `ToolResolutionError`, which counts neither as a completed step nor as an error. `value` is the
    result itself; that of a terminal tool is the result of the run.
    """

    text: str
    status: Literal["ok", "soft", "error"] = "ok"
    value: Any = None
    exception: Annotated[Any, Field(exclude=True)] = None
    """The exception that the tool raised. Only available in the process that executed the tool; it is not stored."""

    @classmethod
    def failed(cls, error: str, exception: Exception | None = None) -> ToolOutcome:
        """Return the outcome of a tool that failed; the model receives `error`."""
        return cls(f"[ToolError] {error}", "error", exception=exception)

    @classmethod
    def soft(cls, why: str) -> ToolOutcome:
        """Return the outcome of a tool that did not find the requested object."""
        return cls(why, "soft")


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls that are being executed, and the outcomes so far, by index of the call."""

    calls: tuple[ToolCall, ...]
    outcomes: Mapping[int, ToolOutcome]

    @property
    def open(self) -> tuple[int, ...]:
        """The indexes of the calls without an outcome."""
        return tuple(place for place in range(len(self.calls)) if place not in self.outcomes)


@dataclass(frozen=True, slots=True)
class TerminalCall:
    """The terminal call that ended a run, and its result."""

    tool: str
    args: JsonObject
    result: Any


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run.

    `iteration` counts the model's responses. `retries`, `tool_errors`, `premature` and `prereq_violations` count
    consecutive failures.
    """

    messages: tuple[Message, ...]
    steps: Steps = _NO_STEPS
    iteration: int = 0
    retries: int = 0
    held: bool = False
    """Whether to use constrained decoding from now on: the model hit its limit, looped or called an excluded tool."""
    tool_errors: int = 0
    premature: int = 0
    prereq_violations: int = 0
    batch: Batch | None = None
    ended: TerminalCall | None = None

    def add_messages(self, *messages: Message) -> RunState:
        """Return the state with `messages` appended, as messages of this iteration."""
        return replace(self, messages=(*self.messages, *(one.at(self.iteration) for one in messages)))

    def with_messages(self, messages: Sequence[Message]) -> RunState:
        """Return the state with its messages replaced. The progress of a run does not depend on its messages."""
        return replace(self, messages=tuple(messages))


def begin_run(
    workflow: Workflow,
    user_message: str,
    prompt_vars: Mapping[str, str] | None = None,
    initial_messages: Sequence[Message] | None = None,
    steps: Steps = _NO_STEPS,
) -> RunState:
    """Return the initial state of a run. `initial_messages` replace the prompts; `steps` are those already done.

    Raises `InvalidWorkflow` for a placeholder without a value, and `TypeError` for anything but a `Message`.
    """
    if initial_messages is not None:
        for place, message in enumerate(initial_messages):
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] - dicts come easily
                raise TypeError(f"initial_messages[{place}]: expected a Message, got {type(message).__name__}")
        return RunState(tuple(initial_messages), steps)
    system = Message.of(MessageType.SYSTEM_PROMPT, workflow.build_system_prompt(**(prompt_vars or {})))
    return RunState((system, Message.of(MessageType.USER_INPUT, user_message)), steps)


def apply_correction(state: RunState, added: Sequence[Message], fault: Fault, *, held: bool) -> RunState:
    """Return the state after a response without a valid call, with the correction for the next one."""
    state = state.add_messages(*added)
    return replace(state, iteration=state.iteration + 1, retries=state.retries + 1, held=held or fault is Fault.LOOP)


def apply_calls(state: RunState, answer: FinalAnswer, reasoning: str) -> RunState:
    """Return the state after valid calls, which become the batch. Pass it to `check_order` before executing any."""
    reasoning_messages = [Message.of(MessageType.REASONING, reasoning)] if reasoning else []
    message = Message.of(MessageType.TOOL_CALL, answer.text or "", calls=answer.calls)
    return replace(
        state.add_messages(*reasoning_messages, message), retries=0, held=False, batch=Batch(answer.calls, {})
    )


def check_order(state: RunState, workflow: Workflow, limits: Limits) -> RunState:
    """Check the batch against the order of steps: return the state unchanged, or with nudges in place of the batch.

    Raises `StepEnforcementError` or `PrerequisiteError` if the limit of nudges is exceeded.
    """
    calls = state.batch.calls if state.batch else ()
    if early := find_premature(workflow, state.steps, calls):
        times = state.premature + 1
        if times > limits.max_premature:
            raise StepEnforcementError(early.call.tool, times, early.pending)
        nudges = build_step_nudges(early, calls, workflow.terminal_tools, times)
        return replace(state.add_messages(*nudges), iteration=state.iteration + 1, premature=times, batch=None)
    if unprepared := find_unprepared(workflow, state.steps, calls):
        times = state.prereq_violations + 1
        if times > limits.max_prereq_violations:
            raise PrerequisiteError(unprepared.call.tool, times, [str(one) for one in unprepared.missing])
        nudges = build_prerequisite_nudges(unprepared, calls)
        return replace(state.add_messages(*nudges), iteration=state.iteration + 1, prereq_violations=times, batch=None)
    return state


def apply_outcome(state: RunState, place: int, outcome: ToolOutcome) -> RunState:
    """Return the state with the outcome of the call at index `place`. After the last one, pass it to `close_batch`.

    Outcomes may arrive in any order; the model receives them in the order of the calls. Raises `LookupError` for a call
    that is not open.
    """
    if state.batch is None or place not in state.batch.open:
        raise LookupError(f"call {place} is not waiting for an outcome")
    first_open = state.batch.open[0]
    batch = replace(state.batch, outcomes={**state.batch.outcomes, place: outcome})
    call = batch.calls[place]
    steps = state.steps.record(call.tool, call.args()) if outcome.status == "ok" else state.steps
    next_state = replace(state, batch=batch, steps=steps)
    if place > first_open:  # its result is appended after those of the earlier calls
        return next_state
    until = next(iter(batch.open), len(batch.calls))
    return next_state.add_messages(*(_result_message(batch, each) for each in range(place, until)))


def close_batch(state: RunState, workflow: Workflow, limits: Limits) -> RunState:
    """Close a batch in which every call has an outcome: the run has ended, or requests the next response.

    Raises `ToolExecutionError` if `max_tool_errors` is exceeded.
    """
    if state.batch is None or state.batch.open:
        raise LookupError("the batch has open calls")
    calls = state.batch.calls
    outcomes = [state.batch.outcomes[place] for place in range(len(calls))]
    state = replace(state, batch=None, iteration=state.iteration + 1)
    for call, outcome in zip(calls, outcomes, strict=True):
        if call.tool in workflow.terminal_tools and outcome.status == "ok":
            return replace(state, ended=TerminalCall(call.tool, call.args() or {}, outcome.value))
    failed = [place for place, outcome in enumerate(outcomes) if outcome.status == "error"]
    if failed:
        times, last = state.tool_errors + 1, failed[-1]
        if times > limits.max_tool_errors:
            raised: Exception | None = outcomes[last].exception
            error_text = outcomes[last].text.removeprefix("[ToolError] ")
            raise ToolExecutionError(calls[last].tool, raised or error_text, times) from raised
        return replace(state, tool_errors=times)
    if any(outcome.status == "ok" for outcome in outcomes):
        return replace(state, tool_errors=0, premature=0, prereq_violations=0)
    return state


def _result_message(batch: Batch, place: int) -> Message:
    return Message.of(MessageType.TOOL_RESULT, batch.outcomes[place].text, answers=batch.calls[place])


def close_open_calls(state: RunState) -> tuple[Message, ...]:
    """Return the messages of a run that is stopped now. Calls that were not run get the result `[Cancelled]`."""
    if state.batch is None:
        return state.messages
    answered = {message.tool_call_id for message in state.messages if message.type is MessageType.TOOL_RESULT}
    missing: list[Message] = []
    for place, call in enumerate(state.batch.calls):
        if call.id in answered:
            continue
        outcome = state.batch.outcomes.get(place)
        text = outcome.text if outcome else f"[Cancelled] {call.tool} was not run."
        missing.append(Message.of(MessageType.TOOL_RESULT, text, answers=call))
    return state.add_messages(*missing).messages
