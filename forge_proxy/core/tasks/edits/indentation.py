"""The indentation of lines, counted in columns and in levels, so that tabs and spaces can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

_TAB = 4
"""Columns of a tab, and of a level if the lines do not show another width."""


@dataclass(frozen=True, slots=True)
class IndentStyle:
    """How a text indents. `unit` is the number of spaces of a level; 0 means that a level is a tab."""

    unit: int

    @classmethod
    def of(cls, lines: Sequence[str]) -> IndentStyle:
        """Return the style of lines: tabs if more lines begin with a tab than with a space."""
        indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
        tabs = sum(indent.startswith("\t") for indent in indents)
        spaces = sum(indent.startswith(" ") for indent in indents)
        if tabs > spaces:
            return cls(0)
        widths = [len(indent) for indent in indents if indent and "\t" not in indent]
        return cls(gcd(*widths) if widths else _TAB)

    def render(self, columns: int) -> str:
        """Return the whitespace of an indentation that is `columns` wide."""
        if self.unit:
            return " " * columns
        return "\t" * (columns // _TAB) + " " * (columns % _TAB)


def indent_columns(line: str) -> int:
    """Return the width of a line's indentation, in which a tab is four columns."""
    return sum(_TAB if character == "\t" else 1 for character in line[: len(line) - len(line.lstrip())])


def relative_columns(lines: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Return each line's indentation relative to the least indented line, and its text. Blank lines have none."""
    least = min((indent_columns(line) for line in lines if line.strip()), default=0)
    return tuple((indent_columns(line) - least if line.strip() else 0, line.strip()) for line in lines)


def relative_levels(lines: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Like `relative_columns`, in levels of the lines' own style: two spaces, four spaces and tabs are then equal."""
    columns = relative_columns(lines)
    unit = gcd(*(width for width, _ in columns)) or 1
    return tuple((width // unit, text) for width, text in columns)


def reindent(replacement: Sequence[str], search: Sequence[str], window: Sequence[str], file: IndentStyle) -> list[str]:
    """Indent the replacement of `search` as the `window` is indented that was found for it."""
    base_search, base_window = _first_columns(search), _first_columns(window)
    scaled = _scale(search, window)
    lines: list[str] = []
    for line in replacement:
        if not line.strip():
            lines.append("")
            continue
        columns = max(0, base_window + scaled(indent_columns(line) - base_search))
        lines.append(file.render(columns) + line.lstrip())
    return lines


def _first_columns(lines: Sequence[str]) -> int:
    return next((indent_columns(line) for line in lines if line.strip()), 0)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Converts columns of one style to another. Only whole levels are converted."""

    source: int = 1
    target: int = 1

    def __call__(self, columns: int) -> int:
        if columns % self.source:
            return columns
        return columns // self.source * self.target


def _scale(search: Sequence[str], window: Sequence[str]) -> _Scale:
    own, found = relative_columns(search), relative_columns(window)
    if own == found or len(own) != len(found):
        return _Scale()
    source, target = gcd(*(width for width, _ in own)), gcd(*(width for width, _ in found))
    return _Scale(source, target) if source and target else _Scale()
