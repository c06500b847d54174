"""Checks a call of a tool with a grammar: its text must match, its framing is repaired."""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.chat import ToolGrammar
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.turn import Fault, Outcome
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.jsontypes import write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.tool_grammars.text_check import MatchingText, MismatchedText, UncheckedText, check_text

_LONGEST_NAME = 64
"""Maximum characters of a tool's name in the note that its text was not checked."""
CheckedCall = tuple[ToolCall, tuple[Intervention, ...]]
"""A call to deliver, and the repairs that it needed."""


def check_grammar(
    grammar: ToolGrammar, call: ToolCall, interventions: tuple[Intervention, ...], *, is_complete: bool
) -> CheckedCall | Problem:
    """Check the text of a call whose arguments satisfy the schema.

    A call without the text, or with a grammar or a text that cannot be checked, is delivered as it is.
    """
    args = call.args() or {}
    text = args.get(grammar.argument)
    if not isinstance(text, str):
        return call, interventions
    match check_text(grammar, text, is_complete=is_complete):
        case MatchingText(_, ()):
            return call, interventions
        case MatchingText(repaired, repairs):
            call = replace(call, arguments=write({**args, grammar.argument: repaired}))
            return call, (*interventions, _describe(call, grammar, repairs))
        case MismatchedText(reason):
            stated = f"`{grammar.argument}`: does not match the grammar: {reason}"
            return Problem(Fault.GRAMMAR, call, (stated,))
        case UncheckedText(reason):
            note = f"unchecked {call.tool[:_LONGEST_NAME]}: {reason}"
            return call, (*interventions, Intervention(Outcome.CLEAN, "", note))


def recover_text(grammar: ToolGrammar, call: ToolCall) -> CheckedCall | None:
    """Recover a call whose arguments do not satisfy the schema: they are the text itself, or other JSON around it."""
    match check_text(grammar, call.arguments, is_complete=False):
        case MatchingText(text, repairs):
            call = replace(call, arguments=write({grammar.argument: text}))
            return call, (_describe(call, grammar, repairs or ("arguments",)),)
        case _:
            return None


def _describe(call: ToolCall, grammar: ToolGrammar, repairs: tuple[str, ...]) -> Intervention:
    return Intervention(Outcome.REPAIRED, call.tool, f"{grammar.argument}: {', '.join(repairs)}")
