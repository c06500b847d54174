"""Splits a grammar in Lark's syntax into tokens, in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.tool_grammars.nodes import UnsupportedGrammar
from forge_proxy.core.tool_grammars.regex_reader import read_code

TokenKind: TypeAlias = Literal["rule", "terminal", "string", "regex", "number", "directive", "operator", "newline"]

_SPACE = re.compile(r"(?:[ \t\f\r]|\\\r?\n)+|//[^\n]*|#[^\n]*")
_NAME = re.compile(r"[!?]*_{0,9}(?:([a-z][_a-z0-9]*)|([A-Z][_A-Z0-9]*))")
_NUMBER = re.compile(r"-?\d{1,9}")
_DIRECTIVE = re.compile(r"%[a-z]+")
_OPERATOR = re.compile(r"->|\.\.|[:|()\[\]{}?*+~.,]")
_NEWLINE = re.compile(r"\n+")
_CONTINUATION = re.compile(r"(?:\s|//[^\n]*\n|#[^\n]*\n)*+\|")
"""What follows a line break that does not end a definition."""
_FLAGS = re.compile(r"[imslux]*")
_STRING_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "\\": "\\", '"': '"'}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


@fast_dataclass
class GrammarToken:
    """A token; `flags` are those of a string or regular expression, which is without its delimiters."""

    kind: TokenKind
    text: str
    flags: str = ""


def tokenize(definition: str) -> Iterator[GrammarToken]:
    """Yield the tokens. Raises `UnsupportedGrammar`."""
    at = 0
    while at < len(definition):
        if space := _SPACE.match(definition, at):
            at = space.end()
        elif definition[at] == '"':
            end = _find_end(definition, at, '"')
            has_flag = definition.startswith("i", end + 1)
            yield GrammarToken("string", _unescape(definition[at + 1 : end]), "i" if has_flag else "")
            at = end + 1 + has_flag
        elif definition[at] == "/":
            end = _find_end(definition, at, "/")
            flags = _FLAGS.match(definition, end + 1)
            yield GrammarToken("regex", definition[at + 1 : end], flags[0] if flags else "")
            at = flags.end() if flags else end + 1
        elif newline := _NEWLINE.match(definition, at):
            at = newline.end()
            if _CONTINUATION.match(definition, at) is None:
                yield GrammarToken("newline", "")
        else:
            token, at = _read_word(definition, at)
            yield token
    yield GrammarToken("newline", "")


def _read_word(definition: str, at: int) -> tuple[GrammarToken, int]:
    """Return a name, number, directive or operator, and where it ends."""
    if name := _NAME.match(definition, at):
        kind = "rule" if name[1] else "terminal"
        return GrammarToken(kind, name[0].lstrip("!?")), name.end()
    kinds: tuple[tuple[TokenKind, re.Pattern[str]], ...] = (
        ("number", _NUMBER),
        ("directive", _DIRECTIVE),
        ("operator", _OPERATOR),
    )
    for kind, pattern in kinds:
        if found := pattern.match(definition, at):
            return GrammarToken(kind, found[0]), found.end()
    raise UnsupportedGrammar("a character that Lark's syntax does not have")


def _find_end(definition: str, begin: int, delimiter: str) -> int:
    """Return the position of the delimiter that closes what is opened at `begin`."""
    at = begin + 1
    while at < len(definition) and definition[at] != "\n":
        if definition[at] == delimiter:
            return at
        at += 2 if definition[at] == "\\" else 1
    raise UnsupportedGrammar("a string or regular expression that is not closed")


def _unescape(text: str) -> str:
    """Return a string with its escapes replaced; an unknown escape stays as it is written."""
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        letter = text[at]
        if letter != "\\":
            out.append(letter)
            at += 1
            continue
        escape = text[at + 1]
        length = _HEX_DIGITS.get(escape, 0)
        out.append(
            read_code(text[at + 2 : at + 2 + length], length) if length else _STRING_ESCAPES.get(escape, "\\" + escape)
        )
        at += 2 + length
    return "".join(out)
