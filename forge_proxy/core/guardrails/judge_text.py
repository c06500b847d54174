"""The verdict on a response without calls: text, nothing, a repetition, or one that the token limit cut off."""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.errors import EmptyAnswer, ToolChoiceUnsatisfied
from forge_proxy.core.guardrails.case import MAX_QUOTED, Case, join_text, render_call
from forge_proxy.core.guardrails.cut import LOOP_NOTICE, render_cut_notice
from forge_proxy.core.guardrails.judge_answer import CheckedAnswer, check_answer, select_text
from forge_proxy.core.guardrails.judge_heuristics import NOTHING, assess_end
from forge_proxy.core.guardrails.nudges import correct_text
from forge_proxy.core.guardrails.turn import Fault, Outcome
from forge_proxy.core.guardrails.verdict import Accept, GiveUp, Intervention, Verdict
from forge_proxy.core.messages import Message
from forge_proxy.core.stream import Reply


def judge_text(case: Case) -> Verdict:
    """Judge a response without calls."""
    turn, reply, extraction = case.turn, case.reply, case.extraction
    text = extraction.text
    is_cut = reply.finish == "length" and (extraction.cut is not None or not text.strip())
    if is_cut and (extraction.cut is not None or not turn.requires_call):
        return _judge_cut(case)
    if turn.requires_call:
        fault = Fault.MALFORMED if extraction.broken else Fault.NO_CALL
        quoted = text[:MAX_QUOTED] if reply.finish == "length" else text
        retry = case.retry(fault, correct_text(turn, fault, quoted))
        return retry or case.give_up(fault, None, (), case.build_unsatisfied_error())
    is_filtered = reply.finish == "content_filter" or bool(reply.extra.get("refusal"))
    if is_filtered or (reply.finish == "length" and not extraction.broken):
        if turn.first_text is not None and not case.sent_text:  # it was complete
            return replace(case, reply=replace(reply, finish="stop")).accept(turn.first_text, ())
        return case.accept(_text_or_none(reply, text), ())
    if extraction.broken:
        retry = case.retry(Fault.MALFORMED, correct_text(turn, Fault.MALFORMED, text))
        return retry or case.give_up(Fault.MALFORMED, turn.first_text or text, ())
    if not text.strip():
        return case.retry(Fault.EMPTY, correct_text(turn, Fault.EMPTY, text)) or _give_up_empty(case)
    assessment = assess_end(case, text) if turn.ends_in_text else NOTHING
    if assessment.retry:
        return assessment.retry
    if turn.text_nudges_left > 0:
        retry = case.retry(Fault.TEXT_ONLY, correct_text(turn, Fault.TEXT_ONLY, text))
        if retry:
            return retry
    delivered = select_text(turn, text)
    checked = CheckedAnswer() if turn.ends_with_call else check_answer(case, delivered)
    if checked.retry:
        return checked.retry
    answer = assessment.accept(case.accept(delivered, (), checked.report), *checked.accepted).answer
    return Accept(replace(answer, is_plain_text=True))


def judge_loop(case: Case) -> Verdict:
    """Judge a response that was stopped because it only repeated itself: retry once, then deliver it up to the cut."""
    turn = case.turn
    text = case.extraction.text
    if Fault.LOOP not in turn.faults:
        retry = case.retry(Fault.LOOP, correct_text(turn, Fault.LOOP, text))
        if retry:
            return retry
    if turn.requires_call:
        return case.give_up(Fault.LOOP, None, (), ToolChoiceUnsatisfied(str(turn.choice), turn.attempt, text))
    if turn.first_text is not None:  # it was complete
        return replace(case, reply=replace(case.reply, finish="stop")).give_up(Fault.LOOP, turn.first_text, ())
    calls = turn.last_calls if turn.policy.on_exhausted == "deliver" and not text.strip() else ()
    if not (text.strip() or case.sent_text.strip() or calls):
        return case.give_up(Fault.LOOP, case.sent_text + LOOP_NOTICE, ())
    return case.give_up(Fault.LOOP, _text_or_none(case.reply, text), calls)


def _give_up_empty(case: Case) -> Verdict:
    """Give up on an empty response: deliver an earlier response if there is one, otherwise fail with `EmptyAnswer`."""
    turn, reply = case.turn, case.reply
    calls = turn.last_calls if turn.policy.on_exhausted == "deliver" else ()
    if turn.first_text or calls or reply.reasoning or case.extraction.reasoning or (reply.text or "").strip():
        text = case.extraction.text if case.extraction.reasoning else reply.text
        return case.give_up(Fault.EMPTY, turn.first_text or text, () if turn.first_text else calls)
    return case.give_up(Fault.EMPTY, None, (), EmptyAnswer(turn.attempt))


def _judge_cut(case: Case) -> Verdict:
    """Judge a response that reached the token limit inside a call or before any text: retry it once.

    If the client sets no limit, the retry gets more tokens. With a limit only a shorter call helps, so the correction
    asks the model for one. A client that receives the cut call would do the same; one that receives text would stop.
    """
    turn = case.turn
    if turn.requires_call:
        return case.retry(Fault.CUT, ()) or case.give_up(Fault.CUT, None, (), case.build_unsatisfied_error())
    if turn.cut_retries_left > 0 and (turn.limit is None or case.extraction.cut is not None):
        retry = case.retry(Fault.CUT, () if turn.limit is None else _ask_for_less(case))
        if retry:
            return retry
    if turn.first_text is not None and not case.sent_text:  # it was complete
        return replace(case, reply=replace(case.reply, finish="stop")).give_up(Fault.CUT, turn.first_text, ())
    return give_up_cut(case, None)


def _ask_for_less(case: Case) -> tuple[Message, ...]:
    """Return the beginning of the cut response and the correction that asks for a shorter one."""
    call_text = "".join(map(render_call, case.reply.calls))
    return correct_text(case.turn, Fault.CUT, f"{case.reply.text or ''}{call_text}"[:MAX_QUOTED])


def give_up_cut(case: Case, message: str | None) -> GiveUp:
    """Deliver the text, followed by a notice of what was cut. `message` is that of the respond tool."""
    reply, sent_text, cut = case.reply, case.sent_text, case.extraction.cut
    notice = render_cut_notice(case.turn.limit, cut, has_reasoning=bool(reply.reasoning or case.extraction.reasoning))
    text = join_text(sent_text, case.extraction.text, message) or ""
    text = text.rstrip() if len(text.rstrip()) > len(sent_text) else sent_text
    what = "call" if cut is not None else "response"
    intervention = Intervention(Outcome.EXHAUSTED, cut or "", f"{what} cut off at the token limit, as the text says")
    whole = f"{text}\n\n{notice}" if text.strip() else f"{sent_text}{notice}"
    return case.give_up(Fault.CUT, whole, (), interventions=(intervention,))


def _text_or_none(reply: Reply, text: str) -> str | None:
    """The text of a response without calls; None if the model server sent no text field."""
    return None if reply.text is None else text
