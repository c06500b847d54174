"""Positions in a text, as editors count them."""

from __future__ import annotations

from typing import NamedTuple


class TextSpan(NamedTuple):
    """A part of a text: `start` and `end` in characters from 0; `line` and `column` of its start from 1."""

    start: int
    end: int
    line: int
    column: int

    @classmethod
    def of(cls, text: str, start: int, end: int) -> TextSpan:
        """Return the span from `start` to `end` with its line and column."""
        return cls(start, end, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"
