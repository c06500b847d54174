"""The verdict on a response with calls: each is valid, or is corrected, or is delivered as the model wrote it."""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.errors import ToolCallInvalid
from forge_proxy.core.guardrails.case import Case, join_text, render_call, select_deliverable
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.judge_heuristics import assess_end, assess_repeat
from forge_proxy.core.guardrails.nudges import Problem, correct_calls, correct_text
from forge_proxy.core.guardrails.repeats import all_repeat, find_answered_calls
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Accept, GiveUp, Intervention, Verdict
from forge_proxy.core.jsontypes import is_nested_too_deeply
from forge_proxy.core.messages import Message, ToolCall


def judge_calls(case: Case, message: str | None) -> Verdict:
    """Judge a response with calls. `message` is that of the respond tool."""
    turn, extraction = case.turn, case.extraction
    valid: list[ToolCall] = []
    problems: list[Problem] = []
    interventions: list[Intervention] = []
    for call in extraction.calls:
        checked = check(turn, call) if turn.policy.enabled.validate_calls else (call, ())
        if isinstance(checked, Problem):
            problems.append(checked)
        else:
            valid.append(checked[0])
            interventions += checked[1]
    if not problems and turn.first_text is not None and all_repeat(valid, find_answered_calls(turn.messages)):
        return _without_repeats(case, valid, message)
    if not problems:
        if extraction.cut is not None:
            interventions.append(
                Intervention(Outcome.REPAIRED, extraction.cut, "dropped a call that was cut off at the token limit")
            )
        is_end = all(turn.is_terminal(call.tool) for call in valid)
        assessment = assess_end(case, extraction.text, valid) if is_end else assess_repeat(case, valid)
        text = join_text(case.sent_text, extraction.text, message)
        return assessment.retry or assessment.accept(case.accept(text, tuple(valid), tuple(interventions)))
    retry = case.retry(problems[0].fault, _corrections(turn, extraction, tuple(problems)), problems[0])
    return retry or _give_up_calls(case, message, valid, problems)


def _give_up_calls(case: Case, message: str | None, valid: list[ToolCall], problems: list[Problem]) -> GiveUp:
    """Deliver the calls of which some are invalid, as calls or as text, or fail."""
    turn, extraction, fault = case.turn, case.extraction, problems[0].fault
    text = join_text(case.sent_text, extraction.text, message)
    invalid = ToolCallInvalid([str(problem) for problem in problems], turn.attempt)
    deliverable = select_deliverable(turn, extraction)
    if turn.requires_call and not deliverable:
        return case.give_up(fault, None, (), case.unsatisfied())
    if turn.policy.on_exhausted == "error":
        return case.give_up(fault, None, (), invalid)
    # Arguments that are not a JSON object cannot be delivered as a call, so the call is delivered as text.
    unparsed = [call for call in extraction.calls if call.args() is None and not is_nested_too_deeply(call.arguments)]
    call_text = "\n".join(map(render_call, unparsed))
    # Valid calls are delivered as repaired, the others unchanged.
    valid_by_id = {call.id: call for call in valid}
    calls = tuple(valid_by_id.get(call.id, call) for call in deliverable)
    if not calls and not call_text and extraction.rescued:  # a call of an unknown tool, delivered as the model wrote it
        return case.give_up(fault, join_text(case.sent_text, extraction.text_with_calls, message), ())
    delivered_text = join_text(case.sent_text, text or "", call_text or None)
    return case.give_up(fault, delivered_text, calls, None if calls or delivered_text else invalid)


def _corrections(turn: Turn, extraction: Extraction, problems: tuple[Problem, ...]) -> tuple[Message, ...]:
    """Return the messages after a failed batch of calls: calls with tool messages, or text if any arguments are not a
    JSON object.

    A model server renders earlier calls into its chat template and fails on arguments that it cannot parse.
    """
    if all(call.args() is not None and not is_nested_too_deeply(call.arguments) for call in extraction.calls):
        return correct_calls(turn, extraction.text, extraction.calls, problems)
    call_text = "\n".join(render_call(call) for call in extraction.calls)
    return correct_text(turn, Fault.MALFORMED, join_text("", extraction.text, call_text) or call_text)


def _without_repeats(case: Case, calls: list[ToolCall], message: str | None) -> Accept:
    """Accept the text that was retried, without the calls of its retry, which only repeat already answered calls.

    If the retry has sent text or called the respond tool, its text is accepted instead.
    """
    has_own_text = case.sent_text or (message or "").strip()
    text = join_text(case.sent_text, case.extraction.text, message) if has_own_text else case.turn.first_text
    names = dict.fromkeys(call.tool for call in calls)
    dropped = tuple(Intervention(Outcome.RETRIED, name, "dropped a call that was already answered") for name in names)
    whole = replace(
        case, reply=replace(case.reply, finish="stop"), extraction=replace(case.extraction, interventions=())
    )
    return whole.accept(text, (), dropped)
