"""The verdict on a final answer that does not agree with the results of tools: it is reported, or retried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.guardrails.answer_grounding import UngroundedAnswer, find_ungrounded_answer, has_results
from forge_proxy.core.guardrails.case import Case
from forge_proxy.core.guardrails.heuristic_nudges import correct_ungrounded_answer
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Intervention, Retry
from forge_proxy.core.messages import ToolCall


def check_answer(case: Case, text: str, calls: Sequence[ToolCall] = ()) -> Retry | tuple[Intervention, ...]:
    """Return the retry of a final answer, or its report: of `text` alone, or of `calls`, which end the task."""
    turn = case.turn
    if turn.policy.answer_grounding == "off" or not has_results(turn.messages):
        return ()
    ungrounded = find_ungrounded_answer(text, turn.messages)
    if ungrounded is None:
        return ()
    retry = _retry(case, text, tuple(calls), ungrounded) if turn.may_correct_answer else None
    return retry or (Intervention(Outcome.CLEAN, "", _describe(ungrounded)),)


def select_text(turn: Turn, text: str) -> str:
    """Return the text to deliver: that of the first attempt, unless a correction made it agree with the results."""
    if turn.first_text is None:
        return text
    is_corrected = Fault.UNGROUNDED_ANSWER in turn.faults and find_ungrounded_answer(text, turn.messages) is None
    return text if is_corrected else turn.first_text


def _retry(case: Case, text: str, calls: tuple[ToolCall, ...], ungrounded: UngroundedAnswer) -> Retry | None:
    turn = case.turn
    response = case.extraction.text
    retry = case.retry(Fault.UNGROUNDED_ANSWER, correct_ungrounded_answer(response, calls, ungrounded))
    if retry is None:
        return None
    own = tuple(call for call in calls if not turn.is_respond(call.tool))
    first = turn.first_text or (None if own else text)
    held = replace(retry.turn, valid_calls=own, first_text=first, text_nudges_left=0)
    return replace(retry, turn=held, tool=calls[0].tool if calls else "")


def _describe(ungrounded: UngroundedAnswer) -> str:
    """Describe an answer without its values."""
    count = len(ungrounded.values)
    if not count:
        return "ungrounded answer: nothing of the latest result"
    return f"ungrounded answer: {count} value{'s' if count > 1 else ''} not in the conversation"
