"""Applies the edits of one file in sequence: each sees the result of the ones before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.tasks.edits.elision import find_elision
from forge_proxy.core.tasks.edits.matching import Match, MatchLevel, NearestLines, find_match
from forge_proxy.core.tasks.edits.syntax import find_syntax_fault, is_python
from forge_proxy.core.tasks.edits.text_file import TextFile
from forge_proxy.core.tasks.models import SearchReplace

FaultReason: TypeAlias = Literal["unmatched", "ambiguous", "empty_search", "no_op", "elided", "syntax"]


_MAX_QUOTED = 4000
"""Characters of a text that the description of a fault quotes."""


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """An edit that was applied. `index` is its place among the edits of its file."""

    path: str
    index: int
    level: MatchLevel
    similarity: float = 1.0


@dataclass(frozen=True, slots=True)
class EditFault:
    """An edit that was not applied, and why. `index` counts the edits of its file from 0; None: all of the file."""

    path: str
    index: int | None
    reason: FaultReason
    message: str
    nearest: NearestLines | None = None
    search: str = ""
    """The text that was searched for."""

    def describe(self) -> str:
        """Return what a model needs to correct the edit: the text that it searched for, and the nearest lines."""
        parts = [self.message]
        if self.search:
            parts.append(f"The edit had this `search`:\n\n{_quote(self.search)}")
        if self.nearest is not None:
            lines = f"The nearest lines of the file, from line {self.nearest.line} on:"
            parts.append(f"{lines}\n\n{_quote(self.nearest.text)}")
        return "\n\n".join(parts)

    def __str__(self) -> str:
        place = "" if self.index is None else f" edit {self.index + 1}:"
        return f"{self.path}:{place} {self.message}"


def _quote(text: str) -> str:
    cut = text[:_MAX_QUOTED]
    return f"`````\n{cut.rstrip()}\n`````"


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file after those of its edits that could be applied."""

    file: TextFile
    applied: tuple[AppliedEdit, ...]
    faults: tuple[EditFault, ...]


def apply_edits(path: str, file: TextFile, edits: Sequence[SearchReplace]) -> EditedFile:
    """Apply edits to a file. One that cannot be applied changes nothing and is reported."""
    present, applied, faults = file, list[AppliedEdit](), list[EditFault]()
    for index, edit in enumerate(edits):
        outcome = _apply(path, index, present, edit)
        if isinstance(outcome, EditFault):
            faults.append(outcome)
        else:
            present, match = outcome
            applied.append(AppliedEdit(path, index, match.level, match.similarity))
    if applied and (fault := _find_broken_syntax(path, file, present)):
        return EditedFile(file, (), (*faults, fault))
    return EditedFile(present, tuple(applied), tuple(faults))


def _apply(path: str, index: int, file: TextFile, edit: SearchReplace) -> tuple[TextFile, Match] | EditFault:
    search, replace = (text.replace("\r\n", "\n") for text in (edit.search, edit.replace))
    if not search.strip():
        return EditFault(path, index, "empty_search", "`search` is empty; a new file belongs into `files`")
    if search == replace:
        return EditFault(path, index, "no_op", "`search` and `replace` are equal")
    text = file.normalized
    if placeholder := find_elision(text, replace):
        message = f"`replace` omits code ({placeholder!r}); write it out, or edit a smaller part"
        return EditFault(path, index, "elided", message, search=search)
    match = find_match(text, search, replace)
    if not isinstance(match, Match):
        return EditFault(path, index, match.reason, str(match), match.nearest, search)
    after = file.splice(match.start, match.end, match.replacement)
    if after == file:
        return EditFault(path, index, "no_op", "the edit changes nothing")
    return after, match


def _find_broken_syntax(path: str, before: TextFile, after: TextFile) -> EditFault | None:
    if not is_python(path) or find_syntax_fault(before.text) is not None:
        return None
    fault = find_syntax_fault(after.text)
    return None if fault is None else EditFault(path, None, "syntax", f"after the edits it is no valid Python: {fault}")
