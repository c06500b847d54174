"""The verdict on one attempt: hand it out, ask again, or give up. Pure; the loop around it is `engine/answer.py`."""

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
"""Characters that the model is shown of an answer that ran on to its token limit: the whole may not fit again."""


def judge(
    turn: Turn, reply: Reply, left: str = "", reading: Extraction | None = None, loops: Sequence[Loop] = ()
) -> Verdict:
    """The verdict on `reply`. `left` is the text that has reached the caller: nothing of it can be taken back.

    `reading` is what was found in the reply, where that is known already. `loops` are the parts of it that only repeat
    themselves; where they are cut, the reply ends there.
    """
    reading = reading or read(turn, reply)
    if loops:
        told = tuple(Intervention(Outcome.CLEAN, "", str(loop)) for loop in loops)
        if turn.policy.on_loop == "cut" and not _real(turn, reply.calls):
            # Calls that stand in what repeats itself are none: nobody wants them that often.
            return _judge_loop(_Case(turn, reply, Extraction(reply.text or "", (), told), left))
        reading = replace(reading, marks=(*reading.marks, *told))
    said, calls, is_cut = _split(turn, reading, reply, left)
    if not turn.parallel:
        calls = calls[:1]
    calls = _with_ids(turn, calls)
    case = _Case(turn, reply, replace(reading, calls=calls), left)
    if calls:
        return _judge_calls(case, said)
    if said is not None and said.strip() and not turn.demands_call:
        if reading.cut is not None:
            return _give_up_cut(case, said)
        if reply.calls and not is_cut and reply.finish == "length":  # the limit came when all was said
            case = replace(case, reply=replace(reply, finish="stop"))
        return case.accept(_joined(left, reading.text, said), ())
    return _judge_text(case)


def without_corrections(turn: Turn) -> Turn:
    """The turn where what we have added to the conversation does not fit beside it: the same is then asked anew."""
    return replace(turn, added=(), faults=(*turn.faults, Fault.NO_ROOM))


def judge_unread(turn: Turn, left: str) -> Retry | None:
    """The verdict when the model server failed on its model's call: ask the same again, if that is still possible."""
    return _Case(turn, Reply(), Extraction("", ()), left).retry(Fault.UNREADABLE, ())


def judge_failed_retry(turn: Turn) -> FinalAnswer | None:
    """The final answer when the model server failed on a retry: the response before it, which a client without the
    retry would have received. None if that was nothing to deliver.
    """
    case = _Case(turn, Reply(finish="stop"), Extraction("", ()), "")
    if turn.demands_call:
        return None
    if turn.first_text is not None:
        mark = Intervention(Outcome.RETRIED, "", "delivered the text before a retry that the model server failed")
        return replace(case.accept(turn.first_text, (), (mark,)).settled, is_before_failed_retry=True)
    if turn.last_calls and turn.policy.on_exhausted == "deliver":
        mark = Intervention(Outcome.EXHAUSTED, "", "delivered the calls before a retry that the model server failed")
        return replace(case.accept(None, turn.last_calls, (mark,)).settled, is_before_failed_retry=True)
    return None


@dataclass(frozen=True, slots=True)
class _Case:
    """One attempt before the judge, and the three ways it can end."""

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
        """Hand this out."""
        marks = (*self.reading.marks, *marks)
        asked = Outcome.RETRIED if self.turn.attempt > 1 else Outcome.CLEAN
        reached = Outcome.furthest((outcome, asked, *(mark.kind for mark in marks)))
        finish = _finish(self.reply, calls)
        return Accept(FinalAnswer(text, calls, finish, reached, self.turn.attempt, marks, self.reading.thought))

    def retry(self, fault: Fault, added: tuple[Message, ...], problem: Problem | None = None) -> Retry | None:
        """Ask again, if that is still possible. `problem` is what was wrong with a call."""
        turn = self.turn
        if turn.retries_left == 0 or self.left:
            return None
        following = replace(
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
            return Retry(following, fault, problem.call.tool, problem.summary)
        return Retry(following, fault, (self.reading.cut or "") if fault is Fault.CUT else "")

    def give_up(
        self,
        fault: Fault,
        text: str | None,
        calls: tuple[ToolCall, ...],
        error: ForgeError | None = None,
        marks: tuple[Intervention, ...] = (),
    ) -> GiveUp:
        """Hand out what there is, or the error."""
        if error is not None:
            return GiveUp(fault, None, error)
        return GiveUp(fault, self.accept(text, calls, marks, outcome=Outcome.EXHAUSTED).settled)


def _judge_calls(case: _Case, said: str | None) -> Verdict:
    turn, reading = case.turn, case.reading
    good: list[ToolCall] = []
    problems: list[Problem] = []
    marks: list[Intervention] = []
    for call in reading.calls:
        checked = check(turn, call) if turn.policy.enabled.validate_calls else (call, ())
        if isinstance(checked, Problem):
            problems.append(checked)
        else:
            good.append(checked[0])
            marks += checked[1]
    text = _joined(case.left, reading.text, said)
    if not problems and turn.first_text is not None and all_repeat(good, answered_calls(turn.messages)):
        return _without_repeats(case, good, said)
    if not problems:
        if reading.cut is not None:
            marks.append(
                Intervention(Outcome.REPAIRED, reading.cut, "dropped a call that was cut off at the token limit")
            )
        return case.accept(text, tuple(good), tuple(marks))
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
    # What is no JSON object is no call, so it goes out as the words it is.
    unread = [call for call in reading.calls if call.args() is None and not is_nested_too_deeply(call.arguments)]
    words = "\n".join(map(_written, unread))
    # Those that are right go out as they were mended, the others as they are.
    right = {call.id: call for call in good}
    calls = tuple(right.get(call.id, call) for call in deliverable)
    if not calls and not words and reading.rescued:  # a call to no tool at all, in the model's own words
        return case.give_up(fault, _joined(case.left, reading.written, said), ())
    told = _joined(case.left, text or "", words or None)
    return case.give_up(fault, told, calls, None if calls or told else invalid)


def _without_repeats(case: _Case, calls: list[ToolCall], said: str | None) -> Accept:
    """The text that was retried, without the calls of its retry: they only repeat calls that were already answered.

    What the retry has said by our own tool, or has sent, is the text instead.
    """
    told = case.left or (said or "").strip()
    text = _joined(case.left, case.reading.text, said) if told else case.turn.first_text
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
        shown = text[:_RUN_ON] if reply.finish == "length" else text
        retry = case.retry(fault, say_about_text(turn, fault, shown))
        return retry or case.give_up(fault, None, (), _unsatisfied(case))
    if reply.finish == "length" and not reading.broken:
        return case.accept(_own(reply, text), ())
    if reply.finish == "content_filter" or reply.extra.get("refusal"):
        return case.accept(_own(reply, text), ())
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
    """An answer that was stopped since it only repeated itself: asked again once, then it ends where it was stopped."""
    turn = case.turn
    text = case.reading.text
    if Fault.LOOP not in turn.faults:
        retry = case.retry(Fault.LOOP, say_about_text(turn, Fault.LOOP, text))
        if retry:
            return retry
    if turn.demands_call:
        return case.give_up(Fault.LOOP, None, (), ToolChoiceUnsatisfied(str(turn.choice), turn.attempt, text))
    if turn.first_text is not None:  # which was whole
        return replace(case, reply=replace(case.reply, finish="stop")).give_up(Fault.LOOP, turn.first_text, ())
    calls = turn.last_calls if turn.policy.on_exhausted == "deliver" and not text.strip() else ()
    if not (text.strip() or case.left.strip() or calls):
        return case.give_up(Fault.LOOP, case.left + LOOP_NOTICE, ())
    return case.give_up(Fault.LOOP, _own(case.reply, text), calls)


def _give_up_empty(case: _Case) -> Verdict:
    """Nothing came at last: what came before it is handed out, and never an empty answer as if it were one."""
    turn, reply = case.turn, case.reply
    calls = turn.last_calls if turn.policy.on_exhausted == "deliver" else ()
    if turn.first_text or calls or reply.reasoning or case.reading.thought or (reply.text or "").strip():
        text = case.reading.text if case.reading.thought else reply.text
        return case.give_up(Fault.EMPTY, turn.first_text or text, () if turn.first_text else calls)
    return case.give_up(Fault.EMPTY, None, (), EmptyAnswer(turn.attempt))


def _judge_cut(case: _Case) -> Verdict:
    """A response that ended at the token limit inside a call, or before any text: retried once.

    Without a limit of the client's the retry gets more room. Within that limit only a shorter call helps, so the model
    is told; a client that gets the cut call itself does the same, and one that gets a text ends.
    """
    turn = case.turn
    if turn.demands_call:
        return case.retry(Fault.CUT, ()) or case.give_up(Fault.CUT, None, (), _unsatisfied(case))
    if turn.cut_retries_left > 0 and (turn.limit is None or case.reading.cut is not None):
        retry = case.retry(Fault.CUT, () if turn.limit is None else _ask_for_less(case))
        if retry:
            return retry
    if turn.first_text is not None and not case.left:  # which was complete
        return replace(case, reply=replace(case.reply, finish="stop")).give_up(Fault.CUT, turn.first_text, ())
    return _give_up_cut(case, None)


def _ask_for_less(case: _Case) -> tuple[Message, ...]:
    """The beginning of the response that was cut, and the correction."""
    written = "".join(map(_written, case.reply.calls))
    return say_about_text(case.turn, Fault.CUT, f"{case.reply.text or ''}{written}"[:_RUN_ON])


def _give_up_cut(case: _Case, said: str | None) -> GiveUp:
    """Deliver the text that there is, and after it what was cut. `said` is the message of our own tool."""
    reply, left, cut = case.reply, case.left, case.reading.cut
    notice = cut_notice(case.turn.limit, cut, has_reasoning=bool(reply.reasoning or case.reading.thought))
    text = _joined(left, case.reading.text, said) or ""
    text = text.rstrip() if len(text.rstrip()) > len(left) else left
    what = "call" if cut is not None else "response"
    mark = Intervention(Outcome.EXHAUSTED, cut or "", f"{what} cut off at the token limit, as the text says")
    whole = f"{text}\n\n{notice}" if text.strip() else f"{left}{notice}"
    return case.give_up(Fault.CUT, whole, (), marks=(mark,))


def _unsatisfied(case: _Case) -> ToolChoiceUnsatisfied:
    cut = case.reply.finish == "length"
    return ToolChoiceUnsatisfied(str(case.turn.choice), case.turn.attempt, case.reading.text, cut=cut)


def _split(turn: Turn, reading: Extraction, reply: Reply, left: str) -> tuple[str | None, tuple[ToolCall, ...], bool]:
    """The message of our own tool, None if it was not called; the other calls; whether the message is not complete.

    A message that the token limit cut is text like any other, and so is one of which the client has read the beginning.
    """
    said: list[str] = []
    others: list[ToolCall] = []
    is_cut = False
    for call in reading.calls:
        ours = turn.is_respond(call.tool)
        message = message_of(call) if ours else None
        if ours and message is None and (reply.finish == "length" or left):
            message, is_cut = MessageDecoder().feed(call.arguments), True
        if message is None:
            others.append(call)
        else:
            said.append(message)
    return ("\n".join(said) if said else None), tuple(others), is_cut


def _real(turn: Turn, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls that a client may see: not those of our own tool, nor those whose arguments are no JSON object, or are
    nested so deeply that the next turn could not be sent with them.
    """
    readable = [call for call in calls if not turn.is_respond(call.tool) and not is_nested_too_deeply(call.arguments)]
    return tuple(call for call in readable if call.args() is not None)


def _deliverable(turn: Turn, reading: Extraction) -> tuple[ToolCall, ...]:
    """What may be handed out of calls that are not all right: not those that the caller's choice excludes, and not
    those to no tool at all that we made out of text, or where a call is demanded.
    """
    said = {(call.tool, call.arguments) for call in reading.rescued}

    def may_go(call: ToolCall) -> bool:
        name = resolve_name(call.tool, turn.known_names)
        if name is None and (turn.demands_call or (call.tool, call.arguments) in said):
            return False
        return turn.choice.allows(name or call.tool)

    return tuple(call for call in _real(turn, reading.calls) if may_go(call))


def _own(reply: Reply, text: str) -> str | None:
    """The text of an answer that holds no call; None where the model server said none."""
    return None if reply.text is None else text


def _with_ids(turn: Turn, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls with ids that are not empty, not equal, and of no earlier call: some servers count in each answer anew.

    Nine letters and digits: some templates insist on that.
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
    """What follows a failed batch of calls: as calls with tool messages, or as text where arguments are no JSON object.

    A model server that puts earlier calls into its template has to parse them, and fails on arguments it cannot read.
    """
    if all(call.args() is not None and not is_nested_too_deeply(call.arguments) for call in reading.calls):
        return say_about_calls(turn, reading.text, reading.calls, problems)
    written = "\n".join(_written(call) for call in reading.calls)
    return say_about_text(turn, Fault.MALFORMED, _joined("", reading.text, written) or written)


def _written(call: ToolCall) -> str:
    """A call as text, if it cannot be sent as a call; only its beginning if it is nested too deeply."""
    deep = is_nested_too_deeply(call.arguments)
    return f"{call.tool}{call.arguments[:_RUN_ON] if deep else call.arguments}"


def _joined(left: str, text: str, said: str | None) -> str | None:
    """The text of an answer: what surrounded its calls, then what was said by our own tool; None for nothing.

    What has left already comes first, whatever the order would have been.
    """
    parts = [part for part in (text.rstrip() if said else text, said) if part and part.strip()]
    whole = "\n".join(parts)
    if whole.startswith(left):
        return whole if whole or said is not None else None
    before = left[: len(left) - len(said)].rstrip("\n") if said and left.endswith(said) else ""
    after = text.removeprefix(before).strip()
    return f"{left}\n{after}" if after else left


def _finish(reply: Reply, calls: tuple[ToolCall, ...]) -> str:
    if calls:
        return "tool_calls"
    finish = reply.finish or "stop"
    return "stop" if finish in ("tool_calls", "function_call") else finish
