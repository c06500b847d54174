"""Compiles the grammars of tools. Compiled grammars are cached, because an agent offers the same tools each time."""

from __future__ import annotations

from typing import NamedTuple

from forge_proxy.core.bounded_cache import cache_results
from forge_proxy.core.chat import ToolGrammar
from forge_proxy.core.tool_grammars.automaton import compile_rules
from forge_proxy.core.tool_grammars.earley_matcher import EarleyMatcher
from forge_proxy.core.tool_grammars.finite_matcher import FiniteMatcher
from forge_proxy.core.tool_grammars.lark_reader import read_lark
from forge_proxy.core.tool_grammars.nodes import RuleSet, UnsupportedGrammar
from forge_proxy.core.tool_grammars.regex_reader import read_whole_regex

MAX_DEFINITION = 50_000
"""Maximum characters of a grammar that is used; reading a grammar of this size takes up to 0.2 s."""
_CACHE_SIZE = 500_000
"""States and characters of the cached grammars, up to 1 kB each."""


class CompiledGrammar(NamedTuple):
    """A grammar that is ready to match texts."""

    rules: RuleSet
    matcher: FiniteMatcher | EarleyMatcher


class _CacheEntry(NamedTuple):
    grammar: CompiledGrammar | None
    flaw: str
    size: int


def compile_grammar(grammar: ToolGrammar) -> CompiledGrammar | None:
    """Return the compiled grammar; None if it cannot be used, for the reason that `find_grammar_flaw` returns."""
    return None if _is_too_long(grammar) else _cached((grammar.syntax, grammar.definition)).grammar


def find_grammar_flaw(grammar: ToolGrammar) -> str:
    """Return why a grammar cannot be used, such as `a directive other than %import and %ignore`; `""` if it can."""
    if _is_too_long(grammar):
        return f"a grammar of more than {MAX_DEFINITION} characters"
    return _cached((grammar.syntax, grammar.definition)).flaw


def _is_too_long(grammar: ToolGrammar) -> bool:
    return len(grammar.definition) > MAX_DEFINITION


def _size_of(entry: _CacheEntry) -> int:
    return entry.size


@cache_results(_CACHE_SIZE, _size_of)
def _cached(key: tuple[str, str]) -> _CacheEntry:
    syntax, definition = key
    try:
        rules = read_lark(definition) if syntax == "lark" else RuleSet("start", {"start": read_whole_regex(definition)})
        automaton = compile_rules(rules)
    except UnsupportedGrammar as flaw:
        return _CacheEntry(None, str(flaw), len(definition))
    matcher = EarleyMatcher(automaton) if automaton.has_calls else FiniteMatcher(automaton)
    return _CacheEntry(CompiledGrammar(rules, matcher), "", len(definition) + len(automaton.states))
