"""The verdict on a response with calls: each is valid, or is corrected, or is delivered as the model wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.errors import ToolCallInvalid
from forge_proxy.core.guardrails.answer_grounding import read_answer
from forge_proxy.core.guardrails.case import Case, join_text, render_call, select_deliverable
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.grounding import find_ungrounded
from forge_proxy.core.guardrails.judge_answer import CheckedAnswer, check_answer
from forge_proxy.core.guardrails.judge_heuristics import assess_end, assess_repeat
from forge_proxy.core.guardrails.nudges import Problem, correct_calls, correct_text
from forge_proxy.core.guardrails.repeats import find_repeats
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Accept, GiveUp, Intervention, Retry, Verdict
from forge_proxy.core.jsontypes import is_nested_too_deeply
from forge_proxy.core.messages import Message, ToolCall

_LONGEST_NAME = 64
"""Maximum characters of the names of a tool and of a parameter in a report."""


def judge_calls(case: Case, message: str | None) -> Verdict:
    """Judge a response with calls. `message` is that of the respond tool."""
    turn, extraction = case.turn, case.extraction
    valid: list[ToolCall] = []
    problems: list[Problem] = []
    interventions: list[Intervention] = []
    repaired = {one.tool for one in extraction.interventions if one.kind is Outcome.REPAIRED}
    for call in extraction.calls:
        is_complete = call.tool not in repaired
        checked = check(turn, call, is_complete=is_complete) if turn.policy.enabled.validate_calls else (call, ())
        if isinstance(checked, Problem):
            problems.append(checked)
        else:
            valid.append(checked[0])
            interventions += checked[1]
    if not problems and turn.first_text is not None:
        kept = _select_new(turn, valid)
        if not kept:
            return _without_repeats(case, valid, message)
        interventions += _describe_dropped(valid, kept)
        valid = kept
    if not problems:
        if turn.policy.grounding != "off" and (made_up := find_ungrounded(turn, valid)):
            if retry := _retry_ungrounded(case, made_up):
                return retry
            details = (f"ungrounded {call.tool[:_LONGEST_NAME]}: {name[:_LONGEST_NAME]}" for call, name in made_up)
            interventions += [Intervention(Outcome.CLEAN, "", detail) for detail in details]
        if extraction.cut is not None:
            interventions.append(
                Intervention(Outcome.REPAIRED, extraction.cut, "dropped a call that was cut off at the token limit")
            )
        is_end = all(turn.is_terminal(call.tool) for call in valid)
        assessment = assess_end(case, extraction.text, valid) if is_end else assess_repeat(case, valid)
        if assessment.retry:
            return assessment.retry
        checked = check_answer(case, read_answer(valid), valid) if is_end else CheckedAnswer()
        text = join_text(case.sent_text, extraction.text, message)
        accepted = case.accept(text, tuple(valid), (*interventions, *checked.report))
        return checked.retry or assessment.accept(accepted, *checked.accepted)
    retry = case.retry(problems[0].fault, _corrections(turn, extraction, tuple(problems)), problems[0])
    return retry or _give_up_calls(case, message, valid, problems)


def _retry_ungrounded(case: Case, made_up: list[tuple[ToolCall, str]]) -> Retry | None:
    """Retry calls with made-up arguments, once, and only if the policy permits it."""
    turn = case.turn
    if turn.policy.grounding != "retry" or Fault.UNGROUNDED in turn.faults:
        return None
    calls = list(dict.fromkeys(call for call, _ in made_up))
    problems = tuple(
        Problem(
            Fault.UNGROUNDED, call, tuple(f"`{name}`: not in the conversation" for one, name in made_up if one == call)
        )
        for call in calls
    )
    return case.retry(Fault.UNGROUNDED, _corrections(turn, case.extraction, problems), problems[0])


def _give_up_calls(case: Case, message: str | None, valid: list[ToolCall], problems: list[Problem]) -> GiveUp:
    """Deliver the calls of which some are invalid, as calls or as text, or fail."""
    turn, extraction, fault = case.turn, case.extraction, problems[0].fault
    text = join_text(case.sent_text, extraction.text, message)
    invalid = ToolCallInvalid([str(problem) for problem in problems], turn.attempt)
    deliverable = select_deliverable(turn, extraction)
    dropped: tuple[Intervention, ...] = ()
    if turn.first_text is not None:
        if not _select_new(turn, valid):
            ended = replace(case, reply=replace(case.reply, finish="stop"))
            return ended.give_up(fault, _join_retried_text(case, message), ())
        new = _select_new(turn, deliverable)
        dropped, deliverable = tuple(_describe_dropped(deliverable, new)), tuple(new)
    if turn.requires_call and not deliverable:
        return case.give_up(fault, None, (), case.build_unsatisfied_error())
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
    return case.give_up(fault, delivered_text, calls, None if calls or delivered_text else invalid, dropped)


def _select_new(turn: Turn, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls that may follow a retried text: those of terminal tools, and those that repeat no answered one.

    The text may be the model's last one: its retry must not do work again that was done already. A call that has only
    failed may follow, unless the model repeats it after a correction.
    """
    terminal = {tool.name for tool in turn.terminal}
    may_retry = Fault.REPEATED_CALL not in turn.faults
    working = [call for call in calls if call.tool not in terminal]
    repeated = find_repeats(working, turn.messages, may_retry=may_retry)
    return [call for call in calls if call not in repeated]


def _describe_dropped(calls: Sequence[ToolCall], kept: Sequence[ToolCall]) -> list[Intervention]:
    names = dict.fromkeys(call.tool for call in calls if call not in kept)
    return [Intervention(Outcome.RETRIED, name, "dropped a call that was already answered") for name in names]


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
    """Accept the text that was retried, without the calls of its retry, which only repeat already answered calls."""
    whole = replace(
        case, reply=replace(case.reply, finish="stop"), extraction=replace(case.extraction, interventions=())
    )
    return whole.accept(_join_retried_text(case, message), (), tuple(_describe_dropped(calls, ())))


def _join_retried_text(case: Case, message: str | None) -> str | None:
    """Return the text that was retried, or that of its retry if it was sent or is the message of the respond tool."""
    has_own_text = case.sent_text or (message or "").strip()
    return join_text(case.sent_text, case.extraction.text, message) if has_own_text else case.turn.first_text
