"""Corrections after a failed attempt: `NudgeWording` contains the sentences, the functions build the messages.

Plain text is corrected in a `user` message, an invalid call in a `tool` message, because tool-trained models expect the
failure of a call there. `docs/decisions/0005-nudge-wordings.md` has the measured recovery rates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from forge_proxy.core.guardrails.turn import Fault, Turn
from forge_proxy.core.messages import Message, MessageType, ToolCall


@dataclass(frozen=True, slots=True)
class NudgeWording:
    """One sentence per fault. The fields of `_fill`, such as `{names}`, are filled in; other braces are kept."""

    text: str = "That was not a valid tool call. Call one of: {names}."
    text_with_respond: str = "That was not a valid tool call. Call one of: {names}. To answer in words, call {respond}."
    text_with_terminal: str = (
        "That was not a valid tool call. Call one of: {names}. To finish the task, call {terminal}."
    )
    empty_with_terminal: str = "Your reply was empty. Call one of: {names}. To finish the task, call {terminal}."
    empty: str = "Your reply was empty. Answer now, or call one of: {names}."
    malformed: str = "That was not a valid tool call. Call one of: {names}."
    unknown_tool: str = "[UnknownTool] {tool}. Call one of: {names}."
    not_allowed: str = "[UnknownTool] {tool} may not be called now. Call one of: {names}."
    bad_arguments: str = "[ToolArgValidationError] Invalid arguments for {tool}: {reasons}. Fix the call and retry."
    loop: str = (
        "Your reply was stopped because it repeated the same words over and over. "
        "Answer without repeating yourself, or call one of: {names}."
    )
    cut: str = (
        "Your reply was cut off at the token limit, and no tool was run. Reply with one shorter call; "
        "do a large task in several calls. Call one of: {names}."
    )
    ungrounded: str = (
        "[ToolArgValidationError] Arguments for {tool} seem to be made up: {reasons}. Use values of the conversation, "
        "find them with a tool, or ask for them."
    )
    not_run: str = "[NotRun] {tool} was not run, because another call beside it was invalid. Call it again as well."


_TYPE = "(?:string|integer|number|boolean|array|object|null)"
_STATED = re.compile(
    rf"(?P<place>`[^`]*`(?:, `[^`]*`)*|arguments)(?::? )"
    rf"(?P<rule>required, missing|no such parameter|are not a JSON object|nested more than \d+ levels deep"
    rf"|not in the conversation|does not match the grammar"
    rf"|expected {_TYPE}(?: or {_TYPE})*(?=, got|\Z))?"
)
"""The part of a reason that contains no value written by the model."""
_LONGEST_PLACE = 100
WORDING = NudgeWording()
_FIELD = re.compile(r"\{(names|tool|reasons|respond|terminal)\}")


@dataclass(frozen=True, slots=True)
class Problem:
    """The fault of one call. `reasons` have the form "`city`: required, missing"."""

    fault: Fault
    call: ToolCall
    reasons: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The first reason without values, for logs: the path and the rule, or only the path."""
        if not self.reasons:
            return ""
        stated = _STATED.match(self.reasons[0])
        if stated is None:
            return "breaks the schema"
        return f"{stated['place'][:_LONGEST_PLACE]}: {stated['rule'] or 'breaks its schema'}"

    def __str__(self) -> str:
        return f"{self.call.tool}: {'; '.join(self.reasons) or self.fault.value}"


def correct_text(turn: Turn, fault: Fault, response: str, wording: NudgeWording = WORDING) -> tuple[Message, ...]:
    """Return the failed response and its correction, for a response without a parsable call."""
    match fault:
        case Fault.EMPTY:
            sentence = wording.empty_with_terminal if turn.ends_with_call else wording.empty
        case Fault.MALFORMED:
            sentence = wording.malformed
        case Fault.LOOP:
            sentence = wording.loop
        case Fault.CUT:
            sentence = wording.cut
        case _ if turn.ends_with_call:
            sentence = wording.text_with_terminal
        case _:
            sentence = wording.text_with_respond if turn.respond else wording.text
    # An empty assistant message keeps the roles alternating, which some chat templates require.
    return (
        Message.of(MessageType.TEXT_RESPONSE, response),
        Message.of(MessageType.RETRY_NUDGE, _fill(sentence, turn)),
    )


def correct_calls(
    turn: Turn,
    response: str,
    calls: tuple[ToolCall, ...],
    problems: tuple[Problem, ...],
    wording: NudgeWording = WORDING,
) -> tuple[Message, ...]:
    """Return the failed calls as the model made them, and a tool message for each."""
    wrong = {problem.call.id: problem for problem in problems}
    messages = [Message.of(MessageType.TOOL_CALL, response, calls=calls)]
    for call in calls:
        problem = wrong.get(call.id)
        sentence = _sentence_for(problem.fault, wording) if problem else wording.not_run
        filled = _fill(sentence, turn, call.tool, problem.reasons if problem else ())
        messages.append(Message.of(MessageType.RETRY_NUDGE, filled, answers=call))
    return tuple(messages)


def _sentence_for(fault: Fault, wording: NudgeWording) -> str:
    match fault:
        case Fault.UNKNOWN_TOOL:
            return wording.unknown_tool
        case Fault.NOT_ALLOWED:
            return wording.not_allowed
        case Fault.UNGROUNDED:
            return wording.ungrounded
        case _:
            return wording.bad_arguments


def _fill(sentence: str, turn: Turn, tool: str = "", reasons: tuple[str, ...] = ()) -> str:
    """Fill in the fields of a sentence in one pass, so that inserted text is not filled in again."""
    values = {
        "names": ", ".join(turn.callable_names),
        "tool": tool,
        "reasons": "; ".join(reasons),
        "respond": turn.respond.name if turn.respond else "",
        "terminal": " or ".join(tool.name for tool in turn.terminal),
    }
    return _FIELD.sub(lambda field: values[field[1]], sentence)
