"""Finds the tools that the user's words ask for.

A tool is asked for by a word of its name that no other offered tool has. A clause asks for the tools that share the
most words with it: "email the customer" asks for `send_email`, not for `get_customer`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.requests_in_text import find_requests, select_ends

_DESCRIPTION = 120
"""Characters of a tool's description in which a second word is looked for."""
_WORD = re.compile(r"[A-Za-z]{1,40}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A part of a tool's name: `getWeather`, `HTTPRequest` and `get_weather` have two."""
_GENERIC = """a all an and any api at by call current data details do each for from func function get in info
information is item it make mcp me my new of on one or out per perform set that the their this to tool use using value
via what which with you your"""
"""Words that say nothing about a tool."""
_WEAK = """add answer apply ask bash change check close code command compare complete content count create delete
describe display edit end enter execute fetch file find finish generate give help input insert issue line list load look
lookup manage message modify move name note open output page place plan play point post print process provide put python
query question read remove reply report request resolve result retrieve return review run save script search see select
send share shell show sort start state step stop store submit summarize summary take task tell terminal test text thing
think todo type update upload user verify view word work write"""
"""Words that are common in any text. One of them needs a second word of the name or of the description."""
_ENDINGS = (
    ("ations", "at", 4),
    ("ation", "at", 4),
    ("ators", "at", 4),
    ("ator", "at", 4),
    ("ies", "y", 2),
    ("ings", "", 3),
    ("ing", "", 3),
    ("ed", "", 3),
    ("es", "", 4),
    ("s", "", 3),
    ("e", "", 4),
)
"""Endings, what replaces them, and the fewest letters that must precede them."""
_CACHE_SIZE = 16
"""Messages whose tools are kept: an answer is examined when it begins and when it is complete."""
_MAX_TOOLS = 256
"""Tools that are examined. Among more, few words are distinctive, and examining them takes too long."""


@dataclass(frozen=True, slots=True)
class AskedTools:
    """The tools that the user asks for, in the order of the text."""

    named: tuple[str, ...] = ()
    """Those that a word points at which no other tool has."""
    possible: tuple[str, ...] = ()
    """Those that any word points at: other tools may have the same word."""


@dataclass(frozen=True, slots=True)
class _ToolWords:
    name: str
    words: frozenset[str]
    distinctive: frozenset[str]
    """Those of the words that no other tool has."""
    described: frozenset[str]


def find_asked_tools(text: str, tools: Sequence[ToolSpec]) -> AskedTools:
    """Return the tools among `tools` that the user asks for; none if there are more than `_MAX_TOOLS`."""
    if len(tools) > _MAX_TOOLS:
        return AskedTools()
    text = select_ends(text)
    return _find_asked_tools(text, tuple((tool.name, tool.description[:_DESCRIPTION]) for tool in tools))


@lru_cache(_CACHE_SIZE)
def _find_asked_tools(text: str, tools: tuple[tuple[str, str], ...]) -> AskedTools:
    known = _read_tools(tools)
    mentioned = _read_words(text)
    if not any(tool.words & mentioned for tool in known):
        return AskedTools()
    named: dict[str, None] = {}
    possible: dict[str, None] = {}
    for clause in find_requests(text):
        words = _read_words(clause)
        scores = {tool: score for tool in known if (score := _score(tool, words))}
        best = max(scores.values(), default=0)
        for tool in (tool for tool, score in scores.items() if score == best):
            possible[tool.name] = None
            if words & tool.distinctive:
                named[tool.name] = None
    return AskedTools(tuple(named), tuple(possible))


def _score(tool: _ToolWords, words: frozenset[str]) -> int:
    """Return how much a clause has in common with a tool; 0 if that is too little to point at it.

    A word of the name counts twice as much as any words of the description.
    """
    common = words & tool.words
    is_described = bool((words - common) & tool.described)
    if not common or (len(common) == 1 and common <= _WEAK_STEMS and not is_described):
        return 0
    return 2 * len(common) + is_described


@lru_cache(_CACHE_SIZE)
def _read_tools(tools: tuple[tuple[str, str], ...]) -> tuple[_ToolWords, ...]:
    words = {name: _read_name(name) for name, _ in tools}
    owners = Counter(word for of_tool in words.values() for word in of_tool)
    return tuple(
        _ToolWords(
            name,
            words[name],
            frozenset(word for word in words[name] if owners[word] == 1),
            _read_words(description),
        )
        for name, description in tools
    )


def _read_name(name: str) -> frozenset[str]:
    return frozenset(_stem(part.lower()) for part in _PART.findall(name)) - _GENERIC_STEMS


def _read_words(text: str) -> frozenset[str]:
    return frozenset(_stem(word.lower()) for word in _WORD.findall(text)) - _GENERIC_STEMS


@lru_cache(4096)
def _stem(word: str) -> str:
    """Return the word without its ending: `emails` and `email` are one word, as are `calculator` and `calculate`."""
    for ending, replacement, length in _ENDINGS:
        if word.endswith(ending) and len(word) >= length + len(ending) and not word.endswith("ss"):
            stem = word[: -len(ending)] + replacement
            return stem.removesuffix("e") if len(stem) > length + 1 else stem
    return word


_GENERIC_STEMS = frozenset(map(_stem, _GENERIC.split()))
_WEAK_STEMS = frozenset(map(_stem, _WEAK.split()))
