"""The verdict on a valid response that is probably wrong: it is retried once, and accepted if the retry repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.case import Case
from forge_proxy.core.guardrails.heuristic_nudges import correct_early_end, correct_repeated_call
from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.core.guardrails.remaining_tools import find_remaining
from forge_proxy.core.guardrails.repeated_calls import RepeatedCall, find_repeated_call
from forge_proxy.core.guardrails.turn import Fault, Turn
from forge_proxy.core.guardrails.verdict import Accept, Retry
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.messages import ToolCall


@dataclass(frozen=True, slots=True)
class Assessment:
    """Whether a heuristic applies to a response: `retry` corrects it, unless the heuristic is off for the model."""

    retry: Retry | None = None
    accepted: tuple[Heuristic, ...] = ()
    """The heuristic, if it applies and does not correct the response."""

    def accept(self, verdict: Accept, *others: Heuristic) -> Accept:
        """Return the verdict that accepts the response, with this heuristic and `others` that applied to it."""
        if not (self.accepted or others):
            return verdict
        return Accept(replace(verdict.answer, accepted_cases=(*verdict.answer.accepted_cases, *self.accepted, *others)))


NOTHING = Assessment()


def assess_repeat(case: Case, calls: Sequence[ToolCall]) -> Assessment:
    """Assess whether these valid calls only repeat answered ones."""
    turn = case.turn
    if not _applies(turn, Heuristic.REPEATS, Fault.REPEATED_CALL) or not calls:
        return NOTHING
    if any(turn.choice.names == (call.tool,) or turn.is_terminal(call.tool) for call in calls):
        return NOTHING
    repeated = find_repeated_call(calls, turn.messages, turn.known_names)
    if repeated is None:
        return NOTHING
    if Heuristic.REPEATS not in turn.heuristics.corrected:
        return Assessment(accepted=(Heuristic.REPEATS,))
    remaining = find_remaining_names(turn) if repeated.times > 1 else ()
    correction = correct_repeated_call(turn, case.extraction.text, tuple(calls), repeated, remaining)
    retry = case.retry(Fault.REPEATED_CALL, correction)
    if retry is None:
        return NOTHING
    narrowed = narrow_tools(turn, repeated, remaining)
    return Assessment(
        replace(retry, turn=replace(retry.turn, valid_calls=tuple(calls), narrowed=narrowed), tool=calls[0].tool)
    )


def assess_end(case: Case, text: str, calls: Sequence[ToolCall] = ()) -> Assessment:
    """Assess whether a final answer comes too early: `text` alone, or that of `calls`, which end the task."""
    turn = case.turn
    if not _applies(turn, Heuristic.EARLY_END, Fault.EARLY_END):
        return NOTHING
    unfinished = turn.find_unfinished(counted=True)
    if unfinished is None:
        return NOTHING
    if Heuristic.EARLY_END not in turn.heuristics.corrected:
        return Assessment(accepted=(Heuristic.EARLY_END,))
    correction = correct_early_end(turn, text if not calls else case.extraction.text, tuple(calls), unfinished)
    retry = case.retry(Fault.EARLY_END, correction)
    if retry is None:
        return NOTHING
    own = tuple(call for call in calls if not turn.is_respond(call.tool))
    held = replace(retry.turn, valid_calls=own, first_text=turn.first_text or (None if own else text))
    return Assessment(replace(retry, turn=replace(held, text_nudges_left=0), tool=calls[0].tool if calls else ""))


def find_remaining_names(turn: Turn) -> tuple[str, ...]:
    """Return the tools that may still lead to progress, and last those that end the task; empty if the model can
    neither call one nor end the task.
    """
    allowed = [tool for tool in turn.tools if turn.choice.allows(tool.name)]
    remaining = find_remaining(turn.messages, allowed, turn.terminal_names)
    return (*remaining, *(name for name in turn.callable_names if name in turn.terminal_names))


def narrow_tools(turn: Turn, repeated: RepeatedCall, remaining: Sequence[str] = ()) -> tuple[ToolSpec, ...]:
    """Return the tools for constrained decoding after a repeated call: those in `remaining` if there are any. Otherwise
    without its tool if it had succeeded, without the value that failed if its parameter has an enumeration. Empty if
    nothing can be excluded.

    The rescue parser must read the call, and the model must be able to end the task.
    """
    allowed = [tool for tool in turn.tools if turn.choice.allows(tool.name)]
    offered = (*allowed, turn.respond) if turn.respond else tuple(allowed)
    may_end = turn.requires_call or any(tool.name in turn.terminal_names for tool in offered)
    if not turn.policy.enabled.rescue or not may_end:
        return ()
    if remaining:
        return tuple(tool for tool in offered if tool.name in remaining)
    if not repeated.failed:
        return tuple(tool for tool in offered if tool.name != repeated.call.tool)
    narrowed = tuple(_without_failed(tool, repeated) if tool.name == repeated.call.tool else tool for tool in offered)
    return () if narrowed == offered else narrowed


def _without_failed(tool: ToolSpec, repeated: RepeatedCall) -> ToolSpec:
    """Return the tool without the enumerated values that failed, if others remain."""
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    if not is_object(tool.parameters) or not is_object(properties):
        return tool
    args = repeated.call.args() or {}
    changed: dict[str, Json] = dict(properties)
    for name in repeated.failed_parameters:
        schema = properties.get(name)
        values = schema.get("enum") if is_object(schema) else None
        left = [value for value in values if value != args[name]] if is_list(values) else []
        if is_object(schema) and left:
            changed[name] = {**schema, "enum": left}
    parameters: JsonObject = {**tool.parameters, "properties": changed}
    return tool if changed == properties else replace(tool, parameters=parameters)


def _applies(turn: Turn, heuristic: Heuristic, fault: Fault) -> bool:
    """Whether the heuristic is on, corrected or only counted, and has not corrected an earlier attempt."""
    return heuristic in turn.heuristics.counted and fault not in turn.faults and turn.retries_left > 0
