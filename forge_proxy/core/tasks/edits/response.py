"""Applies a whole response to the files of a worktree: new files and edits, and reports which of them were rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from forge_proxy.core.tasks.edits.apply import AppliedEdit, EditFault, apply_edits
from forge_proxy.core.tasks.edits.elision import find_elision
from forge_proxy.core.tasks.edits.text_file import NotText, TextFile
from forge_proxy.core.tasks.models import FileEdits, LLMResponse, NewFile
from forge_proxy.core.tasks.paths import MAX_FILE_BYTES, find_path_fault
from forge_proxy.core.tasks.scopes import WriteScope


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """A file of a response that cannot be written as a whole, and why. `is_outside`: its path is outside the scope."""

    path: str
    message: str
    is_outside: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class AppliedResponse:
    """What a response writes."""

    files: Mapping[str, bytes]
    """The new contents by path. Files with faults have those of their edits that could be applied."""
    applied: tuple[AppliedEdit, ...]
    faults: tuple[EditFault, ...]
    """Edits that are requested again."""
    rejected: tuple[RejectedFile, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all of the response was applied."""
        return not self.faults and not self.rejected


def paths_of(response: LLMResponse) -> tuple[str, ...]:
    """Return the paths that a response names, each once."""
    return tuple(dict.fromkeys(part.path for part in (*response.files, *response.edits)))


def apply_response(response: LLMResponse, before: Mapping[str, bytes | None], scope: WriteScope) -> AppliedResponse:
    """Apply a response to the files in `before`, which has all paths of the response that are permitted."""
    twice = {file.path for file in response.files} & {edits.path for edits in response.edits}
    files: dict[str, bytes] = {}
    applied: list[AppliedEdit] = []
    faults: list[EditFault] = []
    rejected = [*_find_rejected(response, scope), *(RejectedFile(path, _TWICE) for path in sorted(twice))]
    bad = {one.path for one in rejected}
    for part in (*response.files, *_join_by_file(response)):
        if part.path in bad:
            continue
        try:
            outcome = _apply_part(part, files.get(part.path, before.get(part.path)))
        except NotText as error:
            rejected.append(RejectedFile(part.path, str(error)))
            continue
        if isinstance(outcome, RejectedFile):
            rejected.append(outcome)
        elif isinstance(outcome, bytes):
            files[part.path] = outcome
        else:
            applied += outcome[1]
            faults += outcome[2]
            if outcome[1]:
                files[part.path] = outcome[0]
    return AppliedResponse(files, tuple(applied), tuple(faults), tuple(rejected))


_TWICE = "it is both in `files` and in `edits`; use one of them"


def _find_rejected(response: LLMResponse, scope: WriteScope) -> Iterator[RejectedFile]:
    if not response.files and not any(edits.edits for edits in response.edits):
        yield RejectedFile("response", "it contains neither files nor edits")
    for path in paths_of(response):
        if fault := find_path_fault(path):
            yield RejectedFile(path, fault, is_outside=True)
        elif not scope.permits(path):
            yield RejectedFile(path, "outside the paths that this task may write", is_outside=True)
    seen: set[str] = set()
    for file in response.files:
        if file.path in seen:
            yield RejectedFile(file.path, "it is twice in `files`")
        seen.add(file.path)


def _join_by_file(response: LLMResponse) -> Iterator[FileEdits]:
    """Yield the edits of each file together, in the order of the response."""
    paths = dict.fromkeys(edits.path for edits in response.edits)
    for path in paths:
        yield FileEdits(
            path=path, edits=tuple(edit for one in response.edits if one.path == path for edit in one.edits)
        )


_Edited = tuple[bytes, tuple[AppliedEdit, ...], tuple[EditFault, ...]]


def _apply_part(part: NewFile | FileEdits, before: bytes | None) -> RejectedFile | bytes | _Edited:
    if isinstance(part, NewFile):
        return _write_file(part, before)
    if before is None:
        return RejectedFile(part.path, "there is no such file; a new file belongs into `files`")
    edited = apply_edits(part.path, TextFile.decode(before), part.edits)
    return edited.file.encode(), edited.applied, edited.faults


def _write_file(part: NewFile, before: bytes | None) -> RejectedFile | bytes:
    present = TextFile("") if before is None else TextFile.decode(before)
    if placeholder := find_elision(present.normalized, part.content):
        return RejectedFile(part.path, f"it omits code ({placeholder!r}); write all of it, or use `edits`")
    after = present.replace_all(part.content)
    if before is None and after.text and not after.text.endswith("\n"):
        after = TextFile(after.text + "\n")
    data = after.encode()
    if before is not None and data == before:
        return RejectedFile(part.path, "the content is that of the present file")
    if len(data) > MAX_FILE_BYTES:
        return RejectedFile(part.path, f"{len(data)} bytes; {MAX_FILE_BYTES} are possible")
    return data
