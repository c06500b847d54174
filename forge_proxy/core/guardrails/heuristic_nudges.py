"""Corrections of valid responses that are probably wrong: repeated calls, and answers that are early or made up."""

from __future__ import annotations

from forge_proxy.core.guardrails.answer_grounding import UngroundedAnswer
from forge_proxy.core.guardrails.early_end import Unfinished
from forge_proxy.core.guardrails.repeated_calls import RepeatedCall
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.messages import Message, MessageType, ToolCall

MAX_QUOTED = 600
"""Characters of a result that are quoted: the whole is in the conversation."""
MAX_NAMED = 5
"""Values of an answer that a correction names."""


def correct_repeated_call(
    turn: Turn, response: str, calls: tuple[ToolCall, ...], repeated: RepeatedCall, remaining: tuple[str, ...] = ()
) -> tuple[Message, ...]:
    """Return the repeated calls as the model made them, and a tool message for each. It names the tools in `remaining`
    if there are any, otherwise all others.
    """
    describe = _describe_failure if repeated.failed else _describe_result
    sentence = describe(turn, repeated, remaining)
    corrections = [Message.of(MessageType.RETRY_NUDGE, f"[RepeatedCall] {sentence}", answers=call) for call in calls]
    return (Message.of(MessageType.TOOL_CALL, response, calls=calls), *corrections)


def correct_early_end(
    turn: Turn, response: str, calls: tuple[ToolCall, ...], unfinished: Unfinished
) -> tuple[Message, ...]:
    """Return the final answer, as text or as the calls that make it, and its correction."""
    what = calls[0].tool if calls else "Your answer"
    if unfinished.pending:
        first = f"First call: {', '.join(unfinished.pending)}."
    else:
        first = f"No tool has returned a result yet. First call one of: {', '.join(_working_names(turn))}."
    correction = f"[StepEnforcementError] {what} comes too early. {first} If no call can help, answer again."
    return _answer_and_correction(response, calls, correction)


def correct_ungrounded_answer(
    response: str, calls: tuple[ToolCall, ...], ungrounded: UngroundedAnswer
) -> tuple[Message, ...]:
    """Return the final answer, as text or as the calls that make it, and its correction."""
    what = calls[0].tool if calls else "Your answer"
    fault = "does not contain the result"
    if ungrounded.values:
        fault = f"names {', '.join(ungrounded.values[:MAX_NAMED])}, which is not in the result"
    # Small models repeat their answer if more words follow the result.
    correction = f"[UngroundedAnswer] {what} {fault}: {_quote(ungrounded.result)}"
    return _answer_and_correction(response, calls, correction)


def _answer_and_correction(response: str, calls: tuple[ToolCall, ...], correction: str) -> tuple[Message, ...]:
    if not calls:
        return (
            Message.of(MessageType.TEXT_RESPONSE, response),
            Message.of(MessageType.RETRY_NUDGE, correction),
        )
    results = [Message.of(MessageType.STEP_NUDGE, correction, answers=call) for call in calls]
    return (Message.of(MessageType.TOOL_CALL, response, calls=calls), *results)


def _describe_result(turn: Turn, repeated: RepeatedCall, remaining: tuple[str, ...]) -> str:
    names = ", ".join(remaining or (name for name in turn.callable_names if name != repeated.call.tool))
    continued = f"Continue with another call, of: {names}." if names else "Continue with other arguments."
    return (
        f"{repeated.call.tool} was already called with these arguments. Its result was: {_quote(repeated.result)}\n"
        f"Use this result. {continued}"
    )


def _describe_failure(turn: Turn, repeated: RepeatedCall, remaining: tuple[str, ...]) -> str:
    already = f"{repeated.call.tool} already failed with these arguments: {_quote(repeated.result)}\n"
    if remaining:
        return f"{already}Call one of: {', '.join(remaining)}."
    failed = ", ".join(f"`{name}`" for name in repeated.failed_parameters)
    change = f"Change {failed}" if failed else "Change the arguments"
    return f"{already}{change}, or call another of: {', '.join(turn.callable_names)}."


def _working_names(turn: Turn) -> list[str]:
    return [name for name in turn.callable_names if name not in turn.terminal_names]


def _quote(result: str) -> str:
    result = result.strip()
    return result if len(result) <= MAX_QUOTED else f"{result[:MAX_QUOTED]}…"
