"""Resolves the escape sequences of JSON and Python strings; other backslashes are kept."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})(?:\\u([0-9a-fA-F]{4}))?|x([0-9a-fA-F]{2})|(\n)|(.))", re.DOTALL)
_LETTERS = {
    '"': '"', "'": "'", "`": "`", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
NO_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*+\\(?![\\\"'`/bfnrt\n]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})")
"""A backslash that starts no escape sequence, as in a path or a regular expression."""


def unescape(raw: str) -> str:
    """Return `raw` with its escapes resolved. An unpaired surrogate is not a character and is kept as written."""
    return _ESCAPE.sub(_resolve, raw) if "\\" in raw else raw


def _resolve(escape: re.Match[str]) -> str:
    unit, second, byte, line, letter = escape.groups()
    if unit is not None:
        return _character(int(unit, 16), second, escape.group())
    if byte is not None:
        return chr(int(byte, 16))
    if line is not None:
        return ""
    # A path or a regular expression (`\d`, `C:\Users`) with an unescaped backslash.
    return _LETTERS.get(letter, escape.group())


def _character(unit: int, second: str | None, source: str) -> str:
    if not 0xD800 <= unit < 0xE000:
        return chr(unit) + (unescape("\\u" + second) if second else "")
    low = int(second, 16) if second else 0
    if unit < 0xDC00 and 0xDC00 <= low < 0xE000:
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
    return source
