"""Checks the text of a call against the grammar of its tool, and repairs its framing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import orjson

from forge_proxy.core.chat import ToolGrammar
from forge_proxy.core.tool_grammars.compiled import CompiledGrammar, compile_grammar, find_grammar_flaw
from forge_proxy.core.tool_grammars.framing import repair_framing
from forge_proxy.core.tool_grammars.matching import Mismatch, TooCostly

MAX_TEXT = 1_000_000
"""Maximum characters of a text that is checked, which takes up to 0.2 s."""
_LONGEST_LINE = 80


@dataclass(frozen=True, slots=True)
class MatchingText:
    """A text that matches the grammar, and the repairs that it needed."""

    text: str
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MismatchedText:
    """A text that does not match. `reason` is for the model: it quotes the line, and lists what the grammar allows."""

    reason: str


@dataclass(frozen=True, slots=True)
class UncheckedText:
    """A text that cannot be checked. `reason` contains no part of it."""

    reason: str


CheckedText: TypeAlias = MatchingText | MismatchedText | UncheckedText


def check_text(grammar: ToolGrammar, text: str, *, is_complete: bool = True) -> CheckedText:
    """Return whether the text matches the grammar, if need be after a repair of its framing.

    A missing end of the text is added only if the text was not cut off, as `is_complete` reports.
    """
    compiled = compile_grammar(grammar)
    if compiled is None:
        return UncheckedText(find_grammar_flaw(grammar))
    if len(text) > MAX_TEXT:
        return UncheckedText(f"a text of more than {MAX_TEXT} characters")
    try:
        mismatch = compiled.matcher.find_mismatch(text)
    except TooCostly:
        return UncheckedText("a text that takes too long to match")
    if mismatch is None:
        return MatchingText(text)
    repaired = repair_framing(text, grammar.definition, lambda one: _matches(compiled, one), is_complete=is_complete)
    if repaired is not None:
        return MatchingText(repaired.text, repaired.repairs)
    return MismatchedText(_explain(text, mismatch))


def _matches(grammar: CompiledGrammar, text: str) -> bool:
    try:
        return grammar.matcher.find_mismatch(text) is None
    except TooCostly:
        return False


def _explain(text: str, mismatch: Mismatch) -> str:
    """Return the number of the line, the line, and what the grammar allows there."""
    number = text.count("\n", 0, mismatch.at) + 1
    begin = text.rfind("\n", 0, mismatch.at) + 1
    line = text[begin:].partition("\n")[0]
    expected = " or ".join(mismatch.expected)
    if mismatch.at == len(text):
        return f"the text ends in line {number} ({_quote(line)}), expected {expected}"
    return f"line {number} ({_quote(line)}), column {mismatch.at - begin + 1}: expected {expected}"


def _quote(line: str) -> str:
    return orjson.dumps(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…").decode()
