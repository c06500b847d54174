"""The verdict on one attempt: accept, retry or give up. Pure; `engine/answer.py` runs the attempt loop."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge_proxy.core.errors import EmptyAnswer, ForgeError, ToolCallInvalid, ToolChoiceUnsatisfied
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.cut import LOOP_NOTICE, cut_notice
from forge_proxy.core.guardrails.extraction import Extraction, read
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.guardrails.nudges import Problem, say_about_calls, say_about_text
from forge_proxy.core.guardrails.repeats import all_repeat, answered_calls
from forge_proxy.core.guardrails.respond import MessageDecoder, message_of
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Accept, FinalAnswer, GiveUp, Intervention, Retry, Verdict
from forge_proxy.core.jsontypes import is_nested_too_deeply
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.stream import Reply
from forge_proxy.core.tool_names import resolve_name

_RUN_ON = 1000
"""Characters quoted to the model from a response that reached its token limit: the whole may not fit the window."""


def judge(
    turn: Turn, reply: Reply, left: str = "", reading: Extraction | None = None, loops: Sequence[Loop] = ()
) -> Verdict:
    """Return the verdict on `reply`. `left` is the text that the client has already received and that must stay.

    `reading` is the extraction from the reply, if there is one already. `loops` are the parts of it that only repeat
    themselves; with `on_loop: cut` the reply ends there.
    """
    reading = reading or read(turn, reply)
    if loops:
        loop_reports = tuple(Intervention(Outcome.CLEAN, "", str(loop)) for loop in loops)
        if turn.policy.on_loop == "cut" and not _deliverable_as_calls(turn, reply.calls):
            # Calls inside text that repeats itself are ignored: the model does not mean them that many times.
            return _judge_loop(_Case(turn, reply, Extraction(reply.text or "", (), loop_reports), left))
        reading = replace(reading, marks=(*reading.marks, *loop_reports))
    message, calls, is_cut = _split(turn, reading, reply, left)
    if not turn.parallel:
        calls = calls[:1]
    calls = _with_ids(turn, calls)
    case = _Case(turn, reply, replace(reading, calls=calls), left)
    if calls:
        return _judge_calls(case, message)
    if message is not None and message.strip() and not turn.demands_call:
        if reading.cut is not None:
            return _give_up_cut(case, message)
        if reply.calls and not is_cut and reply.finish == "length":  # the message was complete at the limit
            case = replace(case, reply=replace(reply, finish="stop"))
        return case.accept(_join_text(left, reading.text, message), ())
    return _judge_text(case)


def without_corrections(turn: Turn) -> Turn:
    """Return the turn without failed responses and corrections, for a retry if they do not fit into the window."""
    return replace(turn, added=(), faults=(*turn.faults, Fault.NO_ROOM))


def judge_unread(turn: Turn, left: str) -> Retry | None:
    """Return a retry of the same request after the model server failed to parse a call; None if none is possible."""
    return _Case(turn, Reply(), Extraction("", ()), left).retry(Fault.UNREADABLE, ())


def judge_failed_retry(turn: Turn) -> FinalAnswer | None:
    """Return the final answer if the model server failed on a retry: the response before the retry, which the client
    would have received without it. None if there is nothing to deliver.
    """
    if turn.demands_call:
        return None
    if turn.first_text is not None:
        calls, outcome, what = (), Outcome.RETRIED, "text"
    elif turn.last_calls and turn.policy.on_exhausted == "deliver":
        calls, outcome, what = turn.last_calls, Outcome.EXHAUSTED, "calls"
    else:
        return None
    mark = Intervention(outcome, "", f"delivered the {what} before a retry that the model server failed")
    case = _Case(turn, Reply(finish="stop"), Extraction("", ()), "")
    return replace(case.accept(turn.first_text, calls, (mark,)).settled, is_before_failed_retry=True)


@dataclass(frozen=True, slots=True)
class _Case:
    """One attempt under judgement, with a method for each of the three verdicts."""

    turn: Turn
    reply: Reply
    reading: Extraction
    left: str

    def accept(
        self,
        text: str | None,
        calls: tuple[ToolCall, ...],
        marks: tuple[Intervention, ...] = (),
        outcome: Outcome = Outcome.CLEAN,
    ) -> Accept:
        """Deliver `text` and `calls`."""
        marks = (*self.reading.marks, *marks)
        by_attempt = Outcome.RETRIED if self.turn.attempt > 1 else Outcome.CLEAN
        furthest = Outcome.furthest((outcome, by_attempt, *(mark.kind for mark in marks)))
        finish = _finish(self.reply, calls)
        return Accept(FinalAnswer(text, calls, finish, furthest, self.turn.attempt, marks, self.reading.thought))

    def retry(self, fault: Fault, added: tuple[Message, ...], problem: Problem | None = None) -> Retry | None:
        """Retry with `added` messages; None if no retry remains or text was sent. `problem` is that of a call."""
        turn = self.turn
        if turn.retries_left == 0 or self.left:
            return None
        next_turn = replace(
            turn,
            attempt=turn.attempt + 1,
            retries_left=turn.retries_left - 1,
            text_nudges_left=turn.text_nudges_left - (fault is Fault.TEXT),
            cut_retries_left=turn.cut_retries_left - (fault is Fault.CUT),
            held=turn.held or fault is Fault.NOT_ALLOWED or self.reply.finish == "length",
            faults=(*turn.faults, fault),
            added=(*turn.added, *added),
            first_text=turn.first_text or (self.reading.text if fault is Fault.TEXT else None),
            last_calls=_deliverable(turn, self.reading) or turn.last_calls,
        )
        if problem is not None:
            return Retry(next_turn, fault, problem.call.tool, problem.summary)
        return Retry(next_turn, fault, (self.reading.cut or "") if fault is Fault.CUT else "")

    def give_up(
        self,
        fault: Fault,
        text: str | None,
        calls: tuple[ToolCall, ...],
        error: ForgeError | None = None,
        marks: tuple[Intervention, ...] = (),
    ) -> GiveUp:
        """Deliver `text` and `calls` with outcome `exhausted`, or fail with `error`."""
        if error is not None:
            return GiveUp(fault, None, error)
        return GiveUp(fault, self.accept(text, calls, marks, outcome=Outcome.EXHAUSTED).settled)


def _judge_calls(case: _Case, message: str | None) -> Verdict:
    turn, reading = case.turn, case.reading
    valid: list[ToolCall] = []
    problems: list[Problem] = []
    marks: list[Intervention] = []
    for call in reading.calls:
        checked = check(turn, call) if turn.policy.enabled.validate_calls else (call, ())
        if isinstance(checked, Problem):
            problems.append(checked)
        else:
            valid.append(checked[0])
            marks += checked[1]
    text = _join_text(case.left, reading.text, message)
    if not problems and turn.first_text is not None and all_repeat(valid, answered_calls(turn.messages)):
        return _without_repeats(case, valid, message)
    if not problems:
        if reading.cut is not None:
            marks.append(
                Intervention(Outcome.REPAIRED, reading.cut, "dropped a call that was cut off at the token limit")
            )
        return case.accept(text, tuple(valid), tuple(marks))
    fault = problems[0].fault
    retry = case.retry(fault, _corrections(turn, reading, tuple(problems)), problems[0])
    if retry:
        return retry
    invalid = ToolCallInvalid([str(problem) for problem in problems], turn.attempt)
    deliverable = _deliverable(turn, reading)
    if turn.demands_call and not deliverable:
        return case.give_up(fault, None, (), _unsatisfied(case))
    if turn.policy.on_exhausted == "error":
        return case.give_up(fault, None, (), invalid)
    # Arguments that are not a JSON object cannot be delivered as a call, so the call is delivered as text.
    unparsed = [call for call in reading.calls if call.args() is None and not is_nested_too_deeply(call.arguments)]
    call_text = "\n".join(map(_render_call, unparsed))
    # Valid calls are delivered as repaired, the others unchanged.
    valid_by_id = {call.id: call for call in valid}
    calls = tuple(valid_by_id.get(call.id, call) for call in deliverable)
    if not calls and not call_text and reading.rescued:  # a call of an unknown tool, delivered as the model wrote it
        return case.give_up(fault, _join_text(case.left, reading.written, message), ())
    delivered_text = _join_text(case.left, text or "", call_text or None)
    return case.give_up(fault, delivered_text, calls, None if calls or delivered_text else invalid)


def _without_repeats(case: _Case, calls: list[ToolCall], message: str | None) -> Accept:
    """Accept the text that was retried, without the calls of its retry, which only repeat already answered calls.

    If the retry has sent text or called the respond tool, its text is accepted instead.
    """
    has_own_text = case.left or (message or "").strip()
    text = _join_text(case.left, case.reading.text, message) if has_own_text else case.turn.first_text
    names = dict.fromkeys(call.tool for call in calls)
    dropped = tuple(Intervention(Outcome.RETRIED, name, "dropped a call that was already answered") for name in names)
    whole = replace(case, reply=replace(case.reply, finish="stop"), reading=replace(case.reading, marks=()))
    return whole.accept(text, (), dropped)


def _judge_text(case: _Case) -> Verdict:
    turn, reply, reading = case.turn, case.reply, case.reading
    text = reading.text
    is_cut = reply.finish == "length" and (reading.cut is not None or not text.strip())
    if is_cut and (reading.cut is not None or not turn.demands_call):
        return _judge_cut(case)
    if turn.demands_call:
        fault = Fault.MALFORMED if reading.broken else Fault.NO_CALL
        quoted = text[:_RUN_ON] if reply.finish == "length" else text
        retry = case.retry(fault, say_about_text(turn, fault, quoted))
        return retry or case.give_up(fault, None, (), _unsatisfied(case))
    if reply.finish == "length" and not reading.broken:
        return case.accept(_text_or_none(reply, text), ())
    if reply.finish == "content_filter" or reply.extra.get("refusal"):
        return case.accept(_text_or_none(reply, text), ())
    if reading.broken:
        retry = case.retry(Fault.MALFORMED, say_about_text(turn, Fault.MALFORMED, text))
        return retry or case.give_up(Fault.MALFORMED, turn.first_text or text, ())
    if not text.strip():
        return case.retry(Fault.EMPTY, say_about_text(turn, Fault.EMPTY, text)) or _give_up_empty(case)
    if turn.text_nudges_left > 0:
        retry = case.retry(Fault.TEXT, say_about_text(turn, Fault.TEXT, text))
        if retry:
            return retry
    settled = case.accept(turn.first_text or text, ()).settled
    return Accept(replace(settled, bare_text=True))


def _judge_loop(case: _Case) -> Verdict:
    """Judge a response that was stopped because it only repeated itself: retry once, then deliver it up to the cut."""
    turn = case.turn
    text = case.reading.text
    if Fault.LOOP not in turn.faults:
        retry = case.retry(Fault.LOOP, say_about_text(turn, Fault.LOOP, text))
        if retry:
            return retry
    if turn.demands_call:
        return case.give_up(Fault.LOOP, None, (), ToolChoiceUnsatisfied(str(turn.choice), turn.attempt, text))
    if turn.first_text is not None:  # it was complete
        return replace(case, reply=replace(case.reply, finish="stop")).give_up(Fault.LOOP, turn.first_text, ())
    calls = turn.last_calls if turn.policy.on_exhausted == "deliver" and not text.strip() else ()
    if not (text.strip() or case.left.strip() or calls):
        return case.give_up(Fault.LOOP, case.left + LOOP_NOTICE, ())
    return case.give_up(Fault.LOOP, _text_or_none(case.reply, text), calls)


def _give_up_empty(case: _Case) -> Verdict:
    """Give up on an empty response: deliver an earlier response if there is one, otherwise fail with `EmptyAnswer`."""
    turn, reply = case.turn, case.reply
    calls = turn.last_calls if turn.policy.on_exhausted == "deliver" else ()
    if turn.first_text or calls or reply.reasoning or case.reading.thought or (reply.text or "").strip():
        text = case.reading.text if case.reading.thought else reply.text
        return case.give_up(Fault.EMPTY, turn.first_text or text, () if turn.first_text else calls)
    return case.give_up(Fault.EMPTY, None, (), EmptyAnswer(turn.attempt))


def _judge_cut(case: _Case) -> Verdict:
    """Judge a response that reached the token limit inside a call or before any text: retry it once.

    If the client sets no limit, the retry gets more tokens. With a limit only a shorter call helps, so the correction
    asks the model for one. A client that receives the cut call would do the same; one that receives text would stop.
    """
    turn = case.turn
    if turn.demands_call:
        return case.retry(Fault.CUT, ()) or case.give_up(Fault.CUT, None, (), _unsatisfied(case))
    if turn.cut_retries_left > 0 and (turn.limit is None or case.reading.cut is not None):
        retry = case.retry(Fault.CUT, () if turn.limit is None else _ask_for_less(case))
        if retry:
            return retry
    if turn.first_text is not None and not case.left:  # it was complete
        return replace(case, reply=replace(case.reply, finish="stop")).give_up(Fault.CUT, turn.first_text, ())
    return _give_up_cut(case, None)


def _ask_for_less(case: _Case) -> tuple[Message, ...]:
    """Return the beginning of the cut response and the correction that asks for a shorter one."""
    call_text = "".join(map(_render_call, case.reply.calls))
    return say_about_text(case.turn, Fault.CUT, f"{case.reply.text or ''}{call_text}"[:_RUN_ON])


def _give_up_cut(case: _Case, message: str | None) -> GiveUp:
    """Deliver the text, followed by a notice of what was cut. `message` is that of the respond tool."""
    reply, left, cut = case.reply, case.left, case.reading.cut
    notice = cut_notice(case.turn.limit, cut, has_reasoning=bool(reply.reasoning or case.reading.thought))
    text = _join_text(left, case.reading.text, message) or ""
    text = text.rstrip() if len(text.rstrip()) > len(left) else left
    what = "call" if cut is not None else "response"
    mark = Intervention(Outcome.EXHAUSTED, cut or "", f"{what} cut off at the token limit, as the text says")
    whole = f"{text}\n\n{notice}" if text.strip() else f"{left}{notice}"
    return case.give_up(Fault.CUT, whole, (), marks=(mark,))


def _unsatisfied(case: _Case) -> ToolChoiceUnsatisfied:
    cut = case.reply.finish == "length"
    return ToolChoiceUnsatisfied(str(case.turn.choice), case.turn.attempt, case.reading.text, cut=cut)


def _split(turn: Turn, reading: Extraction, reply: Reply, left: str) -> tuple[str | None, tuple[ToolCall, ...], bool]:
    """Return the message of the respond tool (None if it was not called), the other calls, and whether it is cut.

    An incomplete message counts as text if the token limit cut it or if the client has received its beginning.
    """
    messages: list[str] = []
    others: list[ToolCall] = []
    is_cut = False
    for call in reading.calls:
        is_respond = turn.is_respond(call.tool)
        message = message_of(call) if is_respond else None
        if is_respond and message is None and (reply.finish == "length" or left):
            message, is_cut = MessageDecoder().feed(call.arguments), True
        if message is None:
            others.append(call)
        else:
            messages.append(message)
    return ("\n".join(messages) if messages else None), tuple(others), is_cut


def _deliverable_as_calls(turn: Turn, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls that a client may receive: none of the respond tool, none whose arguments are not a JSON object,
    and none nested so deeply that the client could not send them in its next request.
    """
    readable = [call for call in calls if not turn.is_respond(call.tool) and not is_nested_too_deeply(call.arguments)]
    return tuple(call for call in readable if call.args() is not None)


def _deliverable(turn: Turn, reading: Extraction) -> tuple[ToolCall, ...]:
    """Return those of partly invalid calls that may be delivered: none that the client's `tool_choice` excludes, and no
    call of an unknown tool if it was recovered from text or if a call is required.
    """
    rescued = {(call.tool, call.arguments) for call in reading.rescued}

    def is_deliverable(call: ToolCall) -> bool:
        name = resolve_name(call.tool, turn.known_names)
        if name is None and (turn.demands_call or (call.tool, call.arguments) in rescued):
            return False
        return turn.choice.allows(name or call.tool)

    return tuple(call for call in _deliverable_as_calls(turn, reading.calls) if is_deliverable(call))


def _text_or_none(reply: Reply, text: str) -> str | None:
    """The text of a response without calls; None if the model server sent no text field."""
    return None if reply.text is None else text


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


def _corrections(turn: Turn, reading: Extraction, problems: tuple[Problem, ...]) -> tuple[Message, ...]:
    """Return the messages after a failed batch of calls: calls with tool messages, or text if any arguments are not a
    JSON object.

    A model server renders earlier calls into its chat template and fails on arguments that it cannot parse.
    """
    if all(call.args() is not None and not is_nested_too_deeply(call.arguments) for call in reading.calls):
        return say_about_calls(turn, reading.text, reading.calls, problems)
    call_text = "\n".join(_render_call(call) for call in reading.calls)
    return say_about_text(turn, Fault.MALFORMED, _join_text("", reading.text, call_text) or call_text)


def _render_call(call: ToolCall) -> str:
    """Render a call as text if it cannot be sent as a call; only its beginning if it is nested too deeply."""
    is_deep = is_nested_too_deeply(call.arguments)
    return f"{call.tool}{call.arguments[:_RUN_ON] if is_deep else call.arguments}"


def _join_text(left: str, text: str, message: str | None) -> str | None:
    """Join the text around the calls with the message of the respond tool; None if both are empty.

    `left`, the text already sent, comes first regardless of the order in the reply.
    """
    parts = [part for part in (text.rstrip() if message else text, message) if part and part.strip()]
    whole = "\n".join(parts)
    if whole.startswith(left):
        return whole if whole or message is not None else None
    before = left[: len(left) - len(message)].rstrip("\n") if message and left.endswith(message) else ""
    after = text.removeprefix(before).strip()
    return f"{left}\n{after}" if after else left


def _finish(reply: Reply, calls: tuple[ToolCall, ...]) -> str:
    if calls:
        return "tool_calls"
    finish = reply.finish or "stop"
    return "stop" if finish in ("tool_calls", "function_call") else finish
