"""What the daemon would do with an answer, in words."""

from __future__ import annotations

from typing import assert_never

from forge_proxy.core.guardrails import Accept, FinalAnswer, GiveUp, Retry, Turn, Verdict
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.messages import MessageType


def in_words(turn: Turn, verdict: Verdict) -> str:
    """What the daemon would do, as one sentence without an end."""
    match verdict:
        case Accept(settled):
            return f"hand out {_handed(settled)}, outcome {settled.outcome.value}"
        case Retry(_, fault):
            again = f"ask the model again: {_because(fault)}"
            return f"{again}; if text comes again, this text is the answer" if fault is Fault.TEXT else again
        case GiveUp(fault, settled, error):
            if settled is None:
                return f"answer with an error and not ask again: {_because(fault)}; {error}"
            why = "the limit is the caller's own" if fault is Fault.CUT and turn.limit else _because(fault)
            return f"hand out {_handed(settled)}, outcome {settled.outcome.value}, and not ask again: {why}"
        case _:
            assert_never(verdict)


def corrections(verdict: Verdict) -> list[str]:
    """What the model would be told."""
    added = verdict.turn.added if isinstance(verdict, Retry) else ()
    return [message.content for message in added if message.type is MessageType.RETRY_NUDGE]


def _handed(settled: FinalAnswer) -> str:
    number = len(settled.calls)
    calls = f"{number} call{'s' if number > 1 else ''}" if number else ""
    text = "text" if settled.text and settled.text.strip() else ""
    return " and ".join(part for part in (text, calls) if part) or "an empty answer"


def _because(fault: Fault) -> str:
    match fault:
        case Fault.TEXT:
            return "text where it might have called a tool"
        case Fault.NO_CALL:
            return "no call, and tool_choice demands one"
        case Fault.EMPTY:
            return "neither text nor a call"
        case Fault.UNKNOWN_TOOL:
            return "a call of a tool that is not offered"
        case Fault.NOT_ALLOWED:
            return "a call of a tool that tool_choice excludes"
        case Fault.BAD_ARGUMENTS:
            return "arguments that break the tool's schema"
        case Fault.MALFORMED:
            return "a call was begun that cannot be read"
        case Fault.NO_ROOM:
            return "no room for the corrections"
        case Fault.CUT:
            return "cut in the middle of a call"
        case Fault.UNREADABLE:
            return "a call that the model server could not read"
        case Fault.LOOP:
            return "it only repeated itself"
        case _:
            assert_never(fault)
