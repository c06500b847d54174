"""The verdict on one attempt: accept, retry or give up. Pure; `engine/answer.py` runs the attempt loop."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.guardrails.case import Case, join_text, select_readable
from forge_proxy.core.guardrails.extraction import Extraction, extract
from forge_proxy.core.guardrails.judge_answer import check_answer
from forge_proxy.core.guardrails.judge_calls import judge_calls
from forge_proxy.core.guardrails.judge_heuristics import assess_end
from forge_proxy.core.guardrails.judge_text import give_up_cut, judge_loop, judge_text
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.guardrails.respond import MessageDecoder, read_message
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import FinalAnswer, GiveUp, Intervention, Retry, Verdict
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply


def judge(
    turn: Turn, reply: Reply, sent_text: str = "", extraction: Extraction | None = None, loops: Sequence[Loop] = ()
) -> Verdict:
    """Return the verdict on `reply`. `sent_text` is the text that the client has already received and that must stay.

    `extraction` is the extraction from the reply, if there is one already. `loops` are the parts of it that only repeat
    themselves; with `on_loop: cut` the reply ends there.
    """
    verdict = _judge(turn, reply, sent_text, extraction or extract(turn, reply), loops)
    if isinstance(verdict, GiveUp) and turn.valid_calls and not sent_text:
        retried = Intervention(Outcome.RETRIED, turn.valid_calls[0].tool, "delivered the call before a failed retry")
        return Case(turn, Reply(finish="stop"), Extraction("", ()), "").accept(None, turn.valid_calls, (retried,))
    return verdict


def _judge(turn: Turn, reply: Reply, sent_text: str, extraction: Extraction, loops: Sequence[Loop]) -> Verdict:
    if loops:
        loop_reports = tuple(Intervention(Outcome.CLEAN, "", str(loop)) for loop in loops)
        if turn.policy.on_loop == "cut" and not select_readable(turn, reply.calls):
            # Calls inside repeating text are ignored: the model does not intend that many.
            return judge_loop(Case(turn, reply, Extraction(reply.text or "", (), loop_reports), sent_text))
        extraction = replace(extraction, interventions=(*extraction.interventions, *loop_reports))
    made = extraction.calls
    message, calls, is_cut = _split(turn, extraction, reply, sent_text)
    if not turn.parallel:
        calls = calls[:1]
    calls = _with_ids(turn, calls)
    case = Case(turn, reply, replace(extraction, calls=calls), sent_text)
    if calls:
        return judge_calls(case, message)
    if message is not None and message.strip() and not turn.requires_call:
        if extraction.cut is not None:
            return give_up_cut(case, message)
        if reply.calls and not is_cut and reply.finish == "length":  # the message was complete at the limit
            case = replace(case, reply=replace(reply, finish="stop"))
        made = _with_ids(turn, made)
        assessment = assess_end(case, message, made)
        if assessment.retry:
            return assessment.retry
        checked = check_answer(case, message, made)
        text = join_text(sent_text, extraction.text, message)
        return checked.retry or assessment.accept(case.accept(text, (), checked.report), *checked.accepted)
    return judge_text(case)


def without_corrections(turn: Turn) -> Turn:
    """Return the turn without failed responses and corrections, for a retry if they do not fit into the window."""
    return replace(turn, added=(), narrowed=(), faults=(*turn.faults, Fault.NO_ROOM))


def judge_unparsed_call(turn: Turn, sent_text: str) -> Retry | None:
    """Return a retry of the same request after the model server failed to parse a call; None if none is possible."""
    return Case(turn, Reply(), Extraction("", ()), sent_text).retry(Fault.UNREADABLE, ())


def judge_failed_retry(turn: Turn) -> FinalAnswer | None:
    """Return the final answer if the model server failed on a retry: the response before the retry, which the client
    would have received without it. None if there is nothing to deliver.
    """
    if turn.requires_call:
        return None
    if turn.first_text is not None:
        calls, outcome, what = (), Outcome.RETRIED, "text"
    elif turn.valid_calls:
        calls, outcome, what = turn.valid_calls, Outcome.RETRIED, "calls"
    elif turn.last_calls and turn.policy.on_exhausted == "deliver":
        calls, outcome, what = turn.last_calls, Outcome.EXHAUSTED, "calls"
    else:
        return None
    intervention = Intervention(outcome, "", f"delivered the {what} before a retry that the model server failed")
    case = Case(turn, Reply(finish="stop"), Extraction("", ()), "")
    return replace(case.accept(turn.first_text, calls, (intervention,)).answer, is_before_failed_retry=True)


def _split(
    turn: Turn, extraction: Extraction, reply: Reply, sent_text: str
) -> tuple[str | None, tuple[ToolCall, ...], bool]:
    """Return the message of the respond tool (None if it was not called), the other calls, and whether it is cut.

    An incomplete message counts as text if the token limit cut it or if the client has received its beginning.
    """
    messages: list[str] = []
    others: list[ToolCall] = []
    is_cut = False
    for call in extraction.calls:
        is_respond = turn.is_respond(call.tool)
        message = read_message(call) if is_respond else None
        if is_respond and message is None and (reply.finish == "length" or sent_text):
            message, is_cut = MessageDecoder().feed(call.arguments), True
        if message is None:
            others.append(call)
        else:
            messages.append(message)
    return ("\n".join(messages) if messages else None), tuple(others), is_cut


def _with_ids(turn: Turn, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls with non-empty, unique ids that no earlier call uses: some servers number calls per response.

    Generated ids have nine letters and digits, which some chat templates require.
    """
    seen = set(turn.used_ids)
    out: list[ToolCall] = []
    for index, call in enumerate(calls):
        if not call.id or call.id in seen:
            identity = hashlib.sha256(f"{turn.id_seed}/{turn.attempt}/{index}".encode()).hexdigest()[:9]
            call = replace(call, id=identity)
        seen.add(call.id)
        out.append(call)
    return tuple(out)
