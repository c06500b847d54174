"""The verdict on a final answer that does not agree with the results of tools: it is reported, or retried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge_proxy.core.guardrails.answer_grounding import UngroundedAnswer
from forge_proxy.core.guardrails.case import Case
from forge_proxy.core.guardrails.heuristic_nudges import correct_ungrounded_answer
from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Intervention, Retry
from forge_proxy.core.messages import ToolCall


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """The outcome of comparing a final answer with the results of tools: a retry, a report, or neither."""

    retry: Retry | None = None
    report: tuple[Intervention, ...] = ()
    """The report of an answer that is delivered although it does not agree."""

    @property
    def accepted(self) -> tuple[Heuristic, ...]:
        """The heuristic, if it applies and does not correct the answer."""
        return (Heuristic.ANSWER_GROUNDING,) if self.report else ()


def check_answer(case: Case, text: str, calls: Sequence[ToolCall] = ()) -> CheckedAnswer:
    """Compare a final answer with the results of tools: `text` alone, or `calls`, which end the task."""
    ungrounded = case.turn.find_ungrounded(text)
    if ungrounded is None:
        return CheckedAnswer()
    retry = _retry(case, text, tuple(calls), ungrounded) if case.turn.may_correct_answer else None
    if retry is not None:
        return CheckedAnswer(retry)
    return CheckedAnswer(report=(Intervention(Outcome.CLEAN, "", _describe(ungrounded)),))


def select_text(turn: Turn, text: str) -> str:
    """Return the text to deliver: that of the first attempt, unless a correction made it agree with the results."""
    if turn.first_text is None:
        return text
    is_corrected = Fault.UNGROUNDED_ANSWER in turn.faults and turn.find_ungrounded(text) is None
    return text if is_corrected else turn.first_text


def _retry(case: Case, text: str, calls: tuple[ToolCall, ...], ungrounded: UngroundedAnswer) -> Retry | None:
    turn = case.turn
    own = tuple(call for call in calls if not turn.is_respond(call.tool))
    # Small models copy a code into plain text better than into an argument: after a message of the respond tool, the
    # model gets the request as the client sent it.
    is_message = bool(calls) and not own
    correction = () if is_message else correct_ungrounded_answer(case.extraction.text, calls, ungrounded)
    retry = case.retry(Fault.UNGROUNDED_ANSWER, correction)
    if retry is None:
        return None
    first = turn.first_text or (None if own else text)
    respond = None if is_message else turn.respond
    held = replace(retry.turn, valid_calls=own, first_text=first, text_nudges_left=0, respond=respond)
    return replace(retry, turn=held, tool=calls[0].tool if calls else "")


def _describe(ungrounded: UngroundedAnswer) -> str:
    """Describe an answer without its values."""
    count = len(ungrounded.values)
    if not count:
        return "ungrounded answer: nothing of the latest result"
    return f"ungrounded answer: {count} value{'s' if count > 1 else ''} not in the conversation"
