"""Encodes the grammar of a tool's text as GBNF, llama.cpp's format of grammars, for constrained decoding.

The grammar derives the whole call as JSON, like the schema of `call_schema`, so the text is inside a JSON string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import orjson

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.tool_grammars.compiled import compile_grammar
from forge_proxy.core.tool_grammars.nodes import (
    LAST_CODE,
    Alternation,
    CharSet,
    Concatenation,
    Labelled,
    LiteralText,
    Node,
    Repetition,
    RuleReference,
    RuleSet,
)

_CATEGORIES = {
    "d": ((48, 57),),
    "s": ((9, 13), (32, 32)),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
}
"""The ASCII characters of the classes; the others are left to the check of the response."""
_NOT_PLAIN = ((0, 31), (34, 34), (92, 92), (127, 127), (0xD800, 0xDFFF))
"""Characters that a JSON string contains only as escapes, and surrogates, which it does not contain."""
_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
"""The escapes that a text may need. Other control characters are not generated."""
Ranges = tuple[tuple[int, int], ...]


def write_call_grammar(tool: ToolSpec) -> str | None:
    """Return the grammar of a call of this tool; None if it has no grammar or one that GBNF cannot express."""
    compiled = compile_grammar(tool.grammar) if tool.grammar else None
    if tool.grammar is None or compiled is None or is_left_recursive(compiled.rules):
        return None
    names = _gbnf_names(compiled.rules)
    begin = _literal(f'{{"name": {_json(tool.name)}, "arguments": {{{_json(tool.grammar.argument)}: "')
    end = _literal('"}}')
    lines = [f"root ::= {begin} {names[compiled.rules.start]} {end}"]
    lines += [f"{names[name]} ::= {_write(node, names)}" for name, node in compiled.rules.rules.items()]
    return "\n".join(lines)


def is_left_recursive(grammar: RuleSet) -> bool:
    """Whether a rule may begin with itself, which llama.cpp rejects."""
    empty: set[str] = set()
    for _ in grammar.rules:
        found = {name for name, node in grammar.rules.items() if _may_be_empty(node, empty)}
        if found == empty:
            break
        empty = found
    leading = {name: set(_leading(node, empty)) for name, node in grammar.rules.items()}
    while True:  # rules that begin with no other rule are not part of a cycle
        ended = {name for name, first in leading.items() if not first}
        if not ended:
            return bool(leading)
        leading = {name: first - ended for name, first in leading.items() if name not in ended}


def _may_be_empty(node: Node, empty: set[str]) -> bool:
    match node:
        case CharSet():
            return False
        case LiteralText(text):
            return not text
        case RuleReference(name):
            return name in empty
        case Concatenation(parts):
            return all(_may_be_empty(part, empty) for part in parts)
        case Alternation(options):
            return any(_may_be_empty(option, empty) for option in options)
        case Repetition(part, low):
            return low == 0 or _may_be_empty(part, empty)
        case Labelled(part):
            return _may_be_empty(part, empty)


def _leading(node: Node, empty: set[str]) -> list[str]:
    """Return the rules with which a node may begin."""
    match node:
        case RuleReference(name):
            return [name]
        case Concatenation(parts):
            found: list[str] = []
            for part in parts:
                found += _leading(part, empty)
                if not _may_be_empty(part, empty):
                    break
            return found
        case Alternation(options):
            return [name for option in options for name in _leading(option, empty)]
        case Repetition(part) | Labelled(part):
            return _leading(part, empty)
        case _:
            return []


def _gbnf_names(grammar: RuleSet) -> Mapping[str, str]:
    """Return names of letters, digits and hyphens; the number keeps them distinct."""
    return {name: f"{re.sub('[^a-zA-Z]+', '-', name).strip('-')}-{number}" for number, name in enumerate(grammar.rules)}


def _write(node: Node, names: Mapping[str, str]) -> str:
    match node:
        case CharSet():
            return _write_set(node)
        case LiteralText(text, ignore_case):
            if ignore_case and text.lower() != text.upper():
                return " ".join(_write_set(CharSet(((ord(char), ord(char)),), ignore_case=True)) for char in text)
            return _literal(_json(text)[1:-1])
        case RuleReference(name):
            return names[name]
        case Concatenation(parts):
            return " ".join(_write(part, names) for part in parts) or '""'
        case Alternation(options):
            return f"({' | '.join(_write(option, names) for option in options)})"
        case Repetition(part, low, high):
            return f"({_write(part, names)}){_quantifier(low, high)}"
        case Labelled(part):
            return _write(part, names)


def _quantifier(low: int, high: int | None) -> str:
    match low, high:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _:
            return f"{{{low},{'' if high is None else high}}}"


def _write_set(chars: CharSet) -> str:
    """Return the characters as they are in a JSON string: themselves, or their escapes."""
    ranges = _ranges_of(chars)
    plain = _without(ranges, _NOT_PLAIN)
    options = [f"[{''.join(f'{_code(low)}-{_code(high)}' for low, high in plain)}]"] if plain else []
    options += [_literal(text) for code, text in _ESCAPES.items() if any(low <= code <= high for low, high in ranges)]
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def _ranges_of(chars: CharSet) -> Ranges:
    ranges = [*chars.ranges]
    for category in chars.categories:
        known = _CATEGORIES[category.lower()]
        ranges += known if category.islower() else _without(((0, LAST_CODE),), known)
    if chars.ignore_case:
        for low, high in chars.ranges:
            for first, last, shift in ((65, 90, 32), (97, 122, -32)):
                if low <= last and high >= first:
                    ranges.append((max(low, first) + shift, min(high, last) + shift))
    return _without(((0, LAST_CODE),), ranges) if chars.negated else tuple(ranges)


def _without(ranges: Iterable[tuple[int, int]], removed: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ranges without the code points of other ones."""
    kept = [*ranges]
    for first, last in removed:
        kept = [
            part
            for low, high in kept
            for part in ((low, min(high, first - 1)), (max(low, last + 1), high))
            if part[0] <= part[1]
        ]
    return tuple(kept)


def _literal(text: str) -> str:
    is_plain = {char: char.isascii() and char.isprintable() and char not in '"\\' for char in text}
    return '"' + "".join(char if is_plain[char] else _code(ord(char)) for char in text) + '"'


def _code(code: int) -> str:
    """Return a code point as an escape of GBNF, or as itself if it is an ASCII letter or digit."""
    if chr(code).isalnum() and code < 128:
        return chr(code)
    return f"\\x{code:02X}" if code < 256 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _json(text: str) -> str:
    return orjson.dumps(text).decode()
