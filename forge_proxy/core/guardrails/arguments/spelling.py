"""Parses a value that was sent as a string, spelled as in JSON or Python."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from forge_proxy.core.guardrails.schema.view import kind_in_schema
from forge_proxy.core.jsontypes import Json, read_value

_SPACE = " \t\r\n"
_WORDS: dict[str, Json] = {"True": True, "False": False, "None": None}
_PYTHON = re.compile(r"""'((?:[^'\\]|\\.)*+)('?)|"(?:[^"\\]|\\.)*+"?|\b(?:True|False|None)\b""", re.DOTALL)
_QUOTES = re.compile(r"\\.|\"", re.DOTALL)
_NUMBER = re.compile(
    r"[+-]?(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|(?P<integer>0|[1-9]\d{0,2}(?:_\d{3}){1,12}|[1-9]\d{0,40})"
    r"|(?:(?:0|[1-9]\d{0,40})(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,2})?)"
)
"""Numbers as programming languages spell them and JSON does not: `.5`, `5.`, `+3`, `0x10`, `1_000`."""
_EXACT = 2.0**53
"""Below this limit, a float represents every integer exactly."""


def parse_spelled(text: str, kinds: AbstractSet[str]) -> tuple[Json, ...]:
    """Return the value that the text spells, if it is of one of these kinds and not a string; otherwise nothing."""
    text = text.strip(_SPACE)
    read = (_WORDS[text],) if text in _WORDS else _whole_value(text)
    if not read and text.startswith(("[", "{")):  # perhaps a list or dict as Python prints it
        read = _whole_value(_PYTHON.sub(_token_as_json, text))
    if not read and "string" not in kinds and kinds & {"integer", "number"}:
        read = _spelled_number(text)
    for value in read:
        if isinstance(value, float) and value.is_integer() and "number" not in kinds:
            return (int(value),) if "integer" in kinds and abs(value) < _EXACT else ()
        if kind_in_schema(value) in kinds and not isinstance(value, str):
            return (value,)
    return ()


def _whole_value(text: str) -> tuple[Json, ...]:
    read = read_value(text, 0)
    return (read[0],) if read and read[1] == len(text) else ()


def _spelled_number(text: str) -> tuple[Json, ...]:
    number = _NUMBER.fullmatch(text)
    if number is None:
        return ()
    if number["hex"]:
        return (int(text, 16),)
    return (int(text) if number["integer"] else float(text),)


def _token_as_json(token: re.Match[str]) -> str:
    word = token.group()
    if word in _WORDS:
        return {"True": "true", "False": "false", "None": "null"}[word]
    if not word.startswith("'"):
        return word
    inside = _QUOTES.sub(lambda mark: {"\\'": "'", '"': '\\"'}.get(mark[0], mark[0]), token[1])
    return f'"{inside}"' if token[2] else word
