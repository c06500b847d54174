"""Where something stands in a text, as editors count."""

from __future__ import annotations

from typing import NamedTuple


class TextSpan(NamedTuple):
    """From `start` to `end` in characters from 0; `line` and `column` of its start from 1."""

    start: int
    end: int
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


def place_of(text: str, start: int, end: int) -> TextSpan:
    """The place from `start` to `end`."""
    return TextSpan(start, end, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
