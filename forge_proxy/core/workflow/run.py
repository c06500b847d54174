"""A run as a value, and its moves: what the model said, what a tool gave back. Pure; `workflows/runner.py` drives it.

A run is in one of three phases: it asks the model, it executes a batch of calls, or it has ended. Everything that is
needed to go on is in the value, so it can be stored after each move, and gone on with by another process.
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
from forge_proxy.core.workflow.corrections import prerequisite_nudges, step_nudges
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import (
    PrerequisiteError,
    StepEnforcementError,
    ToolExecutionError,
)
from forge_proxy.core.workflow.steps import Steps, find_premature, find_unprepared

_NOTHING_DONE = Steps()


@dataclass(frozen=True, slots=True)
class Limits:
    """The budgets of a run.

    `max_iterations` bounds the model's answers of all kinds; the others count failures in a row, and the run ends with
    the one after them.
    """

    max_iterations: int = 10
    max_retries: int = 3
    """Answers that hold no valid call."""
    max_tool_errors: int = 2
    max_premature: int = 3
    """Terminal calls before the required steps."""
    max_prereq_violations: int = 2

    def __post_init__(self) -> None:
        """Raises `ValueError` for a budget that is none."""
        for name in self.__slots__:
            said: object = getattr(self, name)
            if not is_integer(said) or said < 0:
                raise ValueError(f"{name} is {said!r}: expected a whole number, 0 or more")


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of a call: the text the model is told, and how the call counts.

    `soft` is for a `ToolResolutionError`: no step is done, and no error either. `value` is the result itself, of a
    terminal tool that of the run.
    """

    text: str
    status: Literal["ok", "soft", "error"] = "ok"
    value: Any = None
    exception: Annotated[Any, Field(exclude=True)] = None
    """What the tool raised, in the process it did so: it is not stored with the rest."""

    @classmethod
    def failed(cls, error: str, exception: Exception | None = None) -> ToolOutcome:
        """One of a tool that failed: `error` is told to the model."""
        return cls(f"[ToolError] {error}", "error", exception=exception)

    @classmethod
    def soft(cls, why: str) -> ToolOutcome:
        """One of a tool that did not find what was asked for."""
        return cls(why, "soft")


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls that are being executed, and what came of those that have been, by their place."""

    calls: tuple[ToolCall, ...]
    outcomes: Mapping[int, ToolOutcome]

    @property
    def open(self) -> tuple[int, ...]:
        """The places of the calls without an outcome."""
        return tuple(place for place in range(len(self.calls)) if place not in self.outcomes)


@dataclass(frozen=True, slots=True)
class TerminalCall:
    """The terminal call that ended a run, and its result."""

    tool: str
    args: JsonObject
    result: Any


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a run stands.

    `iteration` counts the model's answers. `retries`, `tool_errors`, `premature` and `prereq_violations` count what
    went wrong in a row.
    """

    messages: tuple[Message, ...]
    steps: Steps = _NOTHING_DONE
    iteration: int = 0
    retries: int = 0
    held: bool = False
    """Whether the model server is held to a call at once: it ran on, or called what it may not."""
    tool_errors: int = 0
    premature: int = 0
    prereq_violations: int = 0
    batch: Batch | None = None
    ended: TerminalCall | None = None

    def say(self, *messages: Message) -> RunState:
        """The same with more messages, of this iteration."""
        return replace(self, messages=(*self.messages, *(one.at(self.iteration) for one in messages)))

    def with_messages(self, messages: Sequence[Message]) -> RunState:
        """The same with other messages: what the model is told has nothing to do with where the run stands."""
        return replace(self, messages=tuple(messages))


def begin(
    workflow: Workflow,
    user_message: str,
    prompt_vars: Mapping[str, str] | None = None,
    initial_messages: Sequence[Message] | None = None,
    steps: Steps = _NOTHING_DONE,
) -> RunState:
    """A run that has not been answered yet; `initial_messages`, where given, are all that has been said so far, and
    `steps` what has been done.

    Raises `InvalidWorkflow` for a placeholder without a value, and `TypeError` for what is no `Message`.
    """
    if initial_messages is not None:
        for place, message in enumerate(initial_messages):
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] - dicts come easily
                raise TypeError(f"initial_messages[{place}]: expected a Message, got {type(message).__name__}")
        return RunState(tuple(initial_messages), steps)
    system = Message.of(MessageType.SYSTEM_PROMPT, workflow.build_system_prompt(**(prompt_vars or {})))
    return RunState((system, Message.of(MessageType.USER_INPUT, user_message)), steps)


def corrected(state: RunState, added: Sequence[Message], fault: Fault, *, held: bool) -> RunState:
    """The model's answer held no valid call: it is told what was wrong, and asked again."""
    told = state.say(*added)
    return replace(told, iteration=state.iteration + 1, retries=state.retries + 1, held=held or fault is Fault.LOOP)


def called(state: RunState, settled: FinalAnswer, reasoning: str) -> RunState:
    """The model made valid calls. They are the batch, which is to be `allowed` before any of it is executed."""
    thought = [Message.of(MessageType.REASONING, reasoning)] if reasoning else []
    said = Message.of(MessageType.TOOL_CALL, settled.text or "", calls=settled.calls)
    return replace(state.say(*thought, said), retries=0, held=False, batch=Batch(settled.calls, {}))


def allowed(state: RunState, workflow: Workflow, limits: Limits) -> RunState:
    """The batch stays as it is, or none of it is executed since a step is missing, which the model is told.

    Raises `StepEnforcementError` or `PrerequisiteError` once the nudges are spent.
    """
    calls = state.batch.calls if state.batch else ()
    if early := find_premature(workflow, state.steps, calls):
        times = state.premature + 1
        if times > limits.max_premature:
            raise StepEnforcementError(early.call.tool, times, early.pending)
        nudges = step_nudges(early, calls, workflow.terminal_tools, times)
        return replace(state.say(*nudges), iteration=state.iteration + 1, premature=times, batch=None)
    if unprepared := find_unprepared(workflow, state.steps, calls):
        times = state.prereq_violations + 1
        if times > limits.max_prereq_violations:
            raise PrerequisiteError(unprepared.call.tool, times, [str(one) for one in unprepared.missing])
        nudges = prerequisite_nudges(unprepared, calls)
        return replace(state.say(*nudges), iteration=state.iteration + 1, prereq_violations=times, batch=None)
    return state


def executed(state: RunState, place: int, outcome: ToolOutcome) -> RunState:
    """A call of the batch has come to something. After the last one the batch is to be `closed`.

    Outcomes may come in any order; the model is told them in the order of the calls. Raises `LookupError` for a place
    that is not open.
    """
    if state.batch is None or place not in state.batch.open:
        raise LookupError(f"call {place} is not waiting for an outcome")
    first_open = state.batch.open[0]
    batch = replace(state.batch, outcomes={**state.batch.outcomes, place: outcome})
    call = batch.calls[place]
    steps = state.steps.record(call.tool, call.args()) if outcome.status == "ok" else state.steps
    following = replace(state, batch=batch, steps=steps)
    if place > first_open:  # it is told after the others before it
        return following
    until = next(iter(batch.open), len(batch.calls))
    return following.say(*(_result(batch, each) for each in range(place, until)))


def closed(state: RunState, workflow: Workflow, limits: Limits) -> RunState:
    """Every call of the batch has its outcome: the run has ended, or the model is asked what comes next.

    Raises `ToolExecutionError` for one error too many.
    """
    if state.batch is None or state.batch.open:
        raise LookupError("the batch is not over")
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
            told = outcomes[last].text.removeprefix("[ToolError] ")
            raise ToolExecutionError(calls[last].tool, raised or told, times) from raised
        return replace(state, tool_errors=times)
    if any(outcome.status == "ok" for outcome in outcomes):
        return replace(state, tool_errors=0, premature=0, prereq_violations=0)
    return state


def _result(batch: Batch, place: int) -> Message:
    return Message.of(MessageType.TOOL_RESULT, batch.outcomes[place].text, answers=batch.calls[place])


def interrupted(state: RunState) -> tuple[Message, ...]:
    """The messages of a run that is stopped now, with a result for each call: what was not run says so."""
    if state.batch is None:
        return state.messages
    told = {message.tool_call_id for message in state.messages if message.type is MessageType.TOOL_RESULT}
    missing: list[Message] = []
    for place, call in enumerate(state.batch.calls):
        if call.id in told:
            continue
        outcome = state.batch.outcomes.get(place)
        text = outcome.text if outcome else f"[Cancelled] {call.tool} was not run."
        missing.append(Message.of(MessageType.TOOL_RESULT, text, answers=call))
    return state.say(*missing).messages
