"""An attempt under judgement: its possible verdicts, and the calls and the text that it can deliver."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forge_proxy.core.errors import ForgeError, ToolChoiceUnsatisfied
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Accept, FinalAnswer, GiveUp, Intervention, Retry
from forge_proxy.core.jsontypes import is_nested_too_deeply
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.stream import Reply
from forge_proxy.core.tool_names import resolve_name

MAX_QUOTED = 1000
"""Characters quoted to the model from a response that reached its token limit: the whole may not fit the window."""


@dataclass(frozen=True, slots=True)
class Case:
    """One attempt under judgement, with a method for each of the three verdicts."""

    turn: Turn
    reply: Reply
    extraction: Extraction
    sent_text: str

    def accept(
        self,
        text: str | None,
        calls: tuple[ToolCall, ...],
        interventions: tuple[Intervention, ...] = (),
        outcome: Outcome = Outcome.CLEAN,
    ) -> Accept:
        """Deliver `text` and `calls`."""
        interventions = (*self.extraction.interventions, *interventions)
        by_attempt = Outcome.RETRIED if self.turn.attempt > 1 else Outcome.CLEAN
        furthest = Outcome.select_furthest(
            (outcome, by_attempt, *(intervention.kind for intervention in interventions))
        )
        finish = _finish(self.reply, calls)
        return Accept(
            FinalAnswer(text, calls, finish, furthest, self.turn.attempt, interventions, self.extraction.reasoning)
        )

    def retry(self, fault: Fault, added: tuple[Message, ...], problem: Problem | None = None) -> Retry | None:
        """Retry with `added` messages; None if no retry remains or text was sent. `problem` is that of a call."""
        turn = self.turn
        if turn.retries_left == 0 or self.sent_text:
            return None
        next_turn = replace(
            turn,
            attempt=turn.attempt + 1,
            retries_left=turn.retries_left - 1,
            # After made-up arguments, text that asks for them is the best response.
            text_nudges_left=0 if fault is Fault.UNGROUNDED else turn.text_nudges_left - (fault is Fault.TEXT_ONLY),
            cut_retries_left=turn.cut_retries_left - (fault is Fault.CUT),
            constrains_decoding=turn.constrains_decoding or (turn.requires_call and self._needs_constraint(fault)),
            faults=(*turn.faults, fault),
            added=(*turn.added, *added),
            first_text=turn.first_text or (self.extraction.text if fault is Fault.TEXT_ONLY else None),
            narrowed=(),
            mismatched_tool=problem.call.tool if problem and fault is Fault.GRAMMAR else "",
            last_calls=select_deliverable(turn, self.extraction) or turn.last_calls,
        )
        if problem is not None:
            return Retry(next_turn, fault, problem.call.tool, problem.summary)
        return Retry(next_turn, fault, (self.extraction.cut or "") if fault is Fault.CUT else "")

    def _needs_constraint(self, fault: Fault) -> bool:
        return fault is Fault.NOT_ALLOWED or self.reply.finish == "length"

    def give_up(
        self,
        fault: Fault,
        text: str | None,
        calls: tuple[ToolCall, ...],
        error: ForgeError | None = None,
        interventions: tuple[Intervention, ...] = (),
    ) -> GiveUp:
        """Deliver `text` and `calls` with outcome `exhausted`, or fail with `error`."""
        if error is not None:
            return GiveUp(fault, None, error)
        return GiveUp(fault, self.accept(text, calls, interventions, outcome=Outcome.EXHAUSTED).answer)

    def build_unsatisfied_error(self) -> ToolChoiceUnsatisfied:
        """Return the error of a response without the call that the client requires."""
        is_cut = self.reply.finish == "length"
        return ToolChoiceUnsatisfied(str(self.turn.choice), self.turn.attempt, self.extraction.text, cut=is_cut)


def select_readable(turn: Turn, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls that a client may receive: none of the respond tool, none whose arguments are not a JSON object,
    and none nested so deeply that the client could not send them in its next request.
    """
    readable = [call for call in calls if not turn.is_respond(call.tool) and not is_nested_too_deeply(call.arguments)]
    return tuple(call for call in readable if call.args() is not None)


def select_deliverable(turn: Turn, extraction: Extraction) -> tuple[ToolCall, ...]:
    """Return those of partly invalid calls that may be delivered: none that the client's `tool_choice` excludes, and no
    call of an unknown tool if it was recovered from text or if a call is required.
    """
    rescued = {(call.tool, call.arguments) for call in extraction.rescued}

    def is_deliverable(call: ToolCall) -> bool:
        name = resolve_name(call.tool, turn.known_names)
        if name is None and (turn.requires_call or (call.tool, call.arguments) in rescued):
            return False
        return turn.choice.allows(name or call.tool)

    return tuple(call for call in select_readable(turn, extraction.calls) if is_deliverable(call))


def render_call(call: ToolCall) -> str:
    """Render a call as text if it cannot be sent as a call; only its beginning if it is nested too deeply."""
    is_deep = is_nested_too_deeply(call.arguments)
    return f"{call.tool}{call.arguments[:MAX_QUOTED] if is_deep else call.arguments}"


def join_text(sent_text: str, text: str, message: str | None) -> str | None:
    """Join the text around the calls with the message of the respond tool; None if both are empty.

    `sent_text`, the text already sent, comes first regardless of the order in the reply.
    """
    parts = [part for part in (text.rstrip() if message else text, message) if part and part.strip()]
    whole = "\n".join(parts)
    if whole.startswith(sent_text):
        return whole if whole or message is not None else None
    before = sent_text[: len(sent_text) - len(message)].rstrip("\n") if message and sent_text.endswith(message) else ""
    after = text.removeprefix(before).strip()
    return f"{sent_text}\n{after}" if after else sent_text


def _finish(reply: Reply, calls: tuple[ToolCall, ...]) -> str:
    if calls:
        return "tool_calls"
    finish = reply.finish or "stop"
    return "stop" if finish in ("tool_calls", "function_call") else finish
