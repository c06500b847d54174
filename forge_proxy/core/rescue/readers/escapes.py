"""Resolves the escapes of a string as JSON and Python write them; what is no escape stays as it stands."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})(?:\\u([0-9a-fA-F]{4}))?|x([0-9a-fA-F]{2})|(\n)|(.))", re.DOTALL)
_LETTERS = {
    '"': '"', "'": "'", "`": "`", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
NO_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*+\\(?![\\\"'`/bfnrt\n]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})")
"""A backslash that begins no escape, as in a path or a pattern."""


def unescape(raw: str) -> str:
    """The text that `raw` stands for. A half of a surrogate pair is no text and stays as it was written."""
    return _ESCAPE.sub(_resolve, raw) if "\\" in raw else raw


def _resolve(escape: re.Match[str]) -> str:
    unit, second, byte, line, letter = escape.groups()
    if unit is not None:
        return _character(int(unit, 16), second, escape.group())
    if byte is not None:
        return chr(int(byte, 16))
    if line is not None:
        return ""
    # A path or a pattern (`\d`, `C:\Users`) whose backslash was not doubled.
    return _LETTERS.get(letter, escape.group())


def _character(unit: int, second: str | None, written: str) -> str:
    if not 0xD800 <= unit < 0xE000:
        return chr(unit) + (unescape("\\u" + second) if second else "")
    low = int(second, 16) if second else 0
    if unit < 0xDC00 and 0xDC00 <= low < 0xE000:
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
    return written
