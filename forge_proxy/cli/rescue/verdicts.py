"""Describes how the daemon would handle a response."""

from __future__ import annotations

from typing import assert_never

from forge_proxy.core.guardrails import Accept, FinalAnswer, GiveUp, Retry, Turn, Verdict
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.messages import MessageType


def describe_verdict(turn: Turn, verdict: Verdict) -> str:
    """Return what the daemon would do, as a sentence without a full stop."""
    match verdict:
        case Accept(answer):
            return f"deliver {_describe_parts(answer)}, outcome {answer.outcome.value}"
        case Retry(_, fault):
            retry = f"retry: {_reason_for(fault)}"
            is_plain_text = fault is Fault.TEXT_ONLY
            return f"{retry}; if the retry brings text too, this text is delivered" if is_plain_text else retry
        case GiveUp(fault, answer, error):
            if answer is None:
                return f"fail without a retry: {_reason_for(fault)}; {error}"
            why = "the client set the token limit" if fault is Fault.CUT and turn.limit else _reason_for(fault)
            return f"deliver {_describe_parts(answer)}, outcome {answer.outcome.value}, without a retry: {why}"
        case _:
            assert_never(verdict)


def corrections_in(verdict: Verdict) -> list[str]:
    """Return the corrections that a retry adds to the request."""
    added = verdict.turn.added if isinstance(verdict, Retry) else ()
    return [message.content for message in added if message.type is MessageType.RETRY_NUDGE]


def _describe_parts(answer: FinalAnswer) -> str:
    number = len(answer.calls)
    calls = f"{number} call{'s' if number > 1 else ''}" if number else ""
    text = "text" if answer.text and answer.text.strip() else ""
    return " and ".join(part for part in (text, calls) if part) or "an empty response"


def _reason_for(fault: Fault) -> str:
    match fault:
        case Fault.TEXT_ONLY:
            return "plain text although tools are offered"
        case Fault.NO_CALL:
            return "no call although tool_choice requires one"
        case Fault.EMPTY:
            return "neither text nor a call"
        case Fault.UNKNOWN_TOOL:
            return "a call to a tool that is not offered"
        case Fault.NOT_ALLOWED:
            return "a call to a tool that tool_choice excludes"
        case Fault.BAD_ARGUMENTS:
            return "arguments that violate the tool's schema"
        case Fault.GRAMMAR:
            return "a text that does not match the tool's grammar"
        case Fault.UNGROUNDED:
            return "arguments with values that appear nowhere in the conversation"
        case Fault.MALFORMED:
            return "a call that cannot be parsed"
        case Fault.NO_ROOM:
            return "the corrections do not fit into the context"
        case Fault.CUT:
            return "the response ends within a call"
        case Fault.UNREADABLE:
            return "a call that the model server could not parse"
        case Fault.LOOP:
            return "the model repeats itself"
        case Fault.REPEATED_CALL:
            return "a call that was already answered"
        case Fault.EARLY_END:
            return "a final answer before the tools that the user asked for were called"
        case Fault.UNGROUNDED_ANSWER:
            return "a final answer that does not agree with the results of tools"
        case _:
            assert_never(fault)
