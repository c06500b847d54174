"""Repairs the framing of Codex's patches: the lines `*** Begin Patch` and `*** End Patch` around the changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_CHANGE = re.compile(r"\*\*\* (?:Add|Delete|Update) File: ")
_BEGUN_END = "*** End P"
"""The shortest beginning of the last line that begins no other line."""


def has_patch_markers(definition: str) -> bool:
    """Whether the definition of a grammar contains the first and the last line of Codex's patches."""
    return _BEGIN in definition and _END in definition


def _add_begin(text: str) -> str | None:
    """Return the text with its first line, if it begins with a change of a file."""
    return f"{_BEGIN}\n{text}" if _CHANGE.match(text) else None


def _add_end(text: str) -> str | None:
    """Return the text with its last line, if its last change ends with a whole line: otherwise it may be cut off."""
    begin, _, last = text.rpartition("\n")
    if not begin or (last and not (last.startswith(_BEGUN_END) and _END.startswith(last))):
        return None
    return None if f"\n{_END}" in text else f"{begin}\n{_END}\n"


def _drop_repeated_markers(text: str) -> str | None:
    """Return the text without repetitions of its first and its last line."""
    lines = text.split("\n")
    first, last = 0, len(lines)
    while first + 1 < last and lines[first].rstrip(" \t") == lines[first + 1].rstrip(" \t") == _BEGIN:
        first += 1
    is_ended = lines[-1] == ""
    last -= is_ended
    while first < last - 1 and lines[last - 1].rstrip(" \t") == lines[last - 2].rstrip(" \t") == _END:
        last -= 1
    return None if (first, last) == (0, len(lines) - is_ended) else "\n".join(lines[first:last]) + "\n" * is_ended


def _drop_surroundings(text: str) -> str | None:
    """Return the text from its only first line to its only last line."""
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if line.rstrip(" \t") == _BEGIN]
    ends = [number for number, line in enumerate(lines) if line.rstrip(" \t") == _END]
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        return None
    repaired = "\n".join([_BEGIN, *lines[begins[0] + 1 : ends[0]], _END, ""])
    return None if repaired == text else repaired


PATCH_STEPS: Mapping[str, Callable[[str], str | None]] = {
    "missing begin": _add_begin,
    "missing end": _add_end,
    "repeated markers": _drop_repeated_markers,
    "text around the patch": _drop_surroundings,
}
"""The repairs by their names in reports."""
