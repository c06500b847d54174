"""Parses a value that was sent as a string, spelled as in JSON or Python."""

from __future__ import annotations

import re
from collections.abc import Collection

from forge_proxy.core.guardrails.schema.view import kind_in_schema
from forge_proxy.core.jsontypes import Json, read_value

_SPACE = " \t\r\n"
_WORDS: dict[str, Json] = {"True": True, "False": False, "None": None}
_PYTHON = re.compile(r"""'((?:[^'\\]|\\.)*+)('?)|"(?:[^"\\]|\\.)*+"?|\b(?:True|False|None)\b""", re.DOTALL)
_QUOTES = re.compile(r"\\.|\"", re.DOTALL)
_EXACT = 2.0**53
"""Below this limit, a float represents every integer exactly."""


def parse_spelled(text: str, kinds: Collection[str]) -> tuple[Json, ...]:
    """Return the value that the text spells, if it is of one of these kinds and is no string; otherwise nothing."""
    text = text.strip(_SPACE)
    read = (_WORDS[text],) if text in _WORDS else _whole_value(text)
    if not read and text.startswith(("[", "{")):  # perhaps a list or dict as Python prints it
        read = _whole_value(_PYTHON.sub(_token_as_json, text))
    for value in read:
        if isinstance(value, float) and value.is_integer() and "number" not in kinds:
            return (int(value),) if "integer" in kinds and abs(value) < _EXACT else ()
        if kind_in_schema(value) in kinds and not isinstance(value, str):
            return (value,)
    return ()


def _whole_value(text: str) -> tuple[Json, ...]:
    read = read_value(text, 0)
    return (read[0],) if read and read[1] == len(text) else ()


def _token_as_json(token: re.Match[str]) -> str:
    word = token.group()
    if word in _WORDS:
        return {"True": "true", "False": "false", "None": "null"}[word]
    if not word.startswith("'"):
        return word
    inside = _QUOTES.sub(lambda mark: {"\\'": "'", '"': '\\"'}.get(mark[0], mark[0]), token[1])
    return f'"{inside}"' if token[2] else word
