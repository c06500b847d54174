"""Finds the text that an edit replaces, on four levels: exact, without trailing whitespace, without indentation, fuzzy.

A level is tried only if the one before it has found nothing; before the last one, a part of a line is searched for
exactly. Several matches on one level are an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.tasks.edits.indentation import IndentStyle, reindent, relative_columns, relative_levels

MatchLevel: TypeAlias = Literal["exact", "trailing_whitespace", "indentation", "fuzzy"]
MIN_SIMILARITY = 0.6
"""The least similarity of a fuzzy match."""
MIN_LEAD = 0.05
"""By how much the best fuzzy match has to be ahead of the best one that does not overlap it."""
_MAX_FUZZY_LINES = 1000
"""Lines of a text that is searched fuzzily; a longer one costs seconds."""
_MAX_QUOTED = 3
"""Line numbers that a message about an ambiguous match names."""


@dataclass(frozen=True, slots=True)
class Match:
    """A range of the text, and what replaces it. Indexes are those of the text with `\\n` as line ending."""

    start: int
    end: int
    replacement: str
    level: MatchLevel
    similarity: float = 1.0


@dataclass(frozen=True, slots=True)
class NearestLines:
    """The lines that are most similar to a text that was not found. `line` counts from 1."""

    line: int
    text: str
    similarity: float


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Why there is no match: the text is nowhere, or at several places (`lines`, from 1)."""

    reason: Literal["unmatched", "ambiguous"]
    level: MatchLevel
    lines: tuple[int, ...] = ()
    nearest: NearestLines | None = None

    def __str__(self) -> str:
        if self.reason == "ambiguous":
            more = ", …" if len(self.lines) > _MAX_QUOTED else ""
            places = ", ".join(map(str, self.lines[:_MAX_QUOTED])) + more
            return f"`search` matches several places (lines {places}); add lines around it that occur only once"
        if self.nearest is None:
            return "`search` does not occur in the file"
        similarity = f"{self.nearest.similarity:.2f}"
        return (
            f"`search` does not occur in the file; the nearest lines begin at line {self.nearest.line} ({similarity})"
        )


@dataclass(frozen=True, slots=True)
class _Window:
    """Consecutive lines of the text. `first` counts from 0; `end` excludes the last line break."""

    first: int
    start: int
    end: int
    lines: Sequence[str]


class _Text:
    """A text with the places of its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        if self.lines[-1] == "" and len(self.lines) > 1:
            self.lines.pop()  # the text ends with a line break, after which there is no line
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def windows(self, count: int) -> Iterator[_Window]:
        """Yield all windows of `count` lines."""
        for first in range(len(self.lines) - count + 1):
            end = self.starts[first + count] - 1
            yield _Window(first, self.starts[first], end, self.lines[first : first + count])

    def line_at(self, index: int) -> int:
        """Return the number of the line at an index, from 1."""
        return self.text.count("\n", 0, index) + 1


def find_match(text: str, search: str, replace: str) -> Match | NoMatch:
    """Find the only place of `search`, which must not be blank. All three texts have `\\n` as their line ending."""
    if search.endswith("\n") and replace and not replace.endswith("\n"):
        replace += "\n"  # else the next line would be joined to it, which no edit means
    starts = _find_all(text, search)
    if len(starts) == 1:
        return Match(starts[0], starts[0] + len(search), replace, "exact")
    inside = _Text(text)
    if starts:
        return NoMatch("ambiguous", "exact", tuple(map(inside.line_at, starts)))
    lines = _lines_of(search)
    by_trailing = _find_equal(inside, lines, lambda some: tuple(line.rstrip() for line in some))
    if by_trailing:
        return _only(
            by_trailing, "trailing_whitespace", lambda window: _replace_window(inside, window, search, replace)
        )
    by_indentation = _find_equal(inside, lines, relative_columns) or _find_equal(inside, lines, relative_levels)
    if by_indentation:
        return _only(
            by_indentation, "indentation", lambda window: _replace_window(inside, window, search, replace, lines)
        )
    part = search.removesuffix("\n")  # a block ends with a line break, also if it quotes a part of a line
    if starts := _find_parts(text, part):
        if len(starts) > 1:
            return NoMatch("ambiguous", "exact", tuple(map(inside.line_at, starts)))
        return Match(starts[0], starts[0] + len(part), replace.removesuffix("\n"), "exact")
    return _find_fuzzy(inside, lines, search, replace)


def _find_parts(text: str, part: str) -> list[int]:
    """Return the places of `part` where it begins and ends with a whole word: `x = 1` is not part of `x = 10`."""
    ends = {at: at + len(part) for at in _find_all(text, part)}
    return [at for at, end in ends.items() if not (_is_within_word(text, at) or _is_within_word(text, end))]


def _is_within_word(text: str, at: int) -> bool:
    return re.fullmatch(r"\w\w", text[max(0, at - 1) : at + 1]) is not None


def _find_all(text: str, search: str) -> list[int]:
    """Return all places of `search`, overlapping ones included."""
    found: list[int] = []
    at = text.find(search)
    while at >= 0:
        found.append(at)
        at = text.find(search, at + 1)
    return found


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _find_equal(text: _Text, lines: Sequence[str], view: Callable[[Sequence[str]], object]) -> list[_Window]:
    wanted, stripped = view(lines), [line.strip() for line in lines]
    return [
        window
        for window in text.windows(len(lines))
        if window.lines[0].strip() == stripped[0]
        and [line.strip() for line in window.lines] == stripped
        and view(window.lines) == wanted
    ]


_Replacement: TypeAlias = tuple[int, int, str]


def _only(windows: Sequence[_Window], level: MatchLevel, make: Callable[[_Window], _Replacement]) -> Match | NoMatch:
    if len(windows) > 1:
        return NoMatch("ambiguous", level, tuple(window.first + 1 for window in windows))
    start, end, replacement = make(windows[0])
    return Match(start, end, replacement, level)


def _replace_window(
    text: _Text, window: _Window, search: str, replace: str, indented_like: Sequence[str] | None = None
) -> _Replacement:
    """Return the range of a window, and its replacement: indented like the window if `indented_like` is given."""
    has_break = search.endswith("\n") or not replace
    end = min(window.end + 1, len(text.text)) if has_break else window.end
    if not replace:
        return window.start, end, ""
    lines = _lines_of(replace) if search.endswith("\n") else replace.split("\n")
    if indented_like is not None:
        lines = reindent(lines, indented_like, window.lines, IndentStyle.of(text.lines))
    return window.start, end, "\n".join(lines) + ("\n" if has_break and end > window.end else "")


def _find_fuzzy(text: _Text, lines: Sequence[str], search: str, replace: str) -> Match | NoMatch:
    if len(lines) > _MAX_FUZZY_LINES:
        return NoMatch("unmatched", "fuzzy")
    scores = _score(text, lines)
    if not scores:
        return NoMatch("unmatched", "fuzzy")
    best = max(scores, key=lambda pair: pair[0])
    similarity, window = best
    nearest = NearestLines(window.first + 1, "\n".join(window.lines), similarity)
    if similarity < MIN_SIMILARITY:
        return NoMatch("unmatched", "fuzzy", nearest=nearest if similarity > 0 else None)
    apart = [pair for pair in scores if abs(pair[1].first - window.first) >= len(lines)]
    rivals = [other for other in apart if similarity - other[0] < MIN_LEAD]
    if rivals:
        places = (window.first + 1, *(rival.first + 1 for _, rival in rivals))
        return NoMatch("ambiguous", "fuzzy", places, nearest)
    start, end, replacement = _replace_window(text, window, search, replace, lines)
    return Match(start, end, replacement, "fuzzy", similarity)


def _score(text: _Text, lines: Sequence[str]) -> list[tuple[float, _Window]]:
    """Return the similarity of each window, without regard to indentation."""
    from rapidfuzz.distance import Indel  # only needed if no exact level has found the text

    wanted = "\n".join(line.strip() for line in lines)
    return [
        (Indel.normalized_similarity(wanted, "\n".join(line.strip() for line in window.lines)), window)
        for window in text.windows(len(lines))
    ]
