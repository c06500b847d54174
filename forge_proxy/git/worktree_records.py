"""What the daemon knows of its worktrees: one small file for each, next to it in the state folder.

A record is written before git creates anything, so that what a killed daemon has left behind is known to be a task's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError


@dataclass(frozen=True, slots=True)
class WorktreeRecord:
    """One worktree."""

    task_id: str
    repository: Path
    """The top folder of its repository."""
    branch: str
    base_commit: str
    """The commit that it was created from."""
    git_dir: Path | None = None
    """The folder in which git administrates it; None until it is complete."""
    is_released: bool = False
    """Whether its files were removed and its branch was kept, which the same task may use again."""


_READER = TypeAdapter(WorktreeRecord)


class WorktreeRecords:
    """The records in a folder. Its worktrees are in one subfolder for each repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path_of(self, repository: Path, task_id: str) -> Path:
        """Return the path of a worktree."""
        key = hashlib.sha256(os.fsencode(repository)).hexdigest()[:12]
        return self.folder / key / task_id

    def read(self, repository: Path, task_id: str) -> WorktreeRecord | None:
        """Return a record; None if there is none, or if it cannot be parsed."""
        return _read(_file_of(self.path_of(repository, task_id)))

    def write(self, record: WorktreeRecord) -> None:
        """Store a record in place of one with the same id."""
        file = _file_of(self.path_of(record.repository, record.task_id))
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        written = file.with_suffix(".new")
        written.write_bytes(_READER.dump_json(record))
        written.replace(file)

    def delete(self, record: WorktreeRecord) -> None:
        """Delete a record, and the folder of its repository if it is the last one."""
        file = _file_of(self.path_of(record.repository, record.task_id))
        file.unlink(missing_ok=True)
        with suppress(OSError):
            file.parent.rmdir()

    def __iter__(self) -> Iterator[WorktreeRecord]:
        for file in sorted(self.folder.glob("*/*.json")):
            if record := _read(file):
                yield record


def _file_of(worktree: Path) -> Path:
    return worktree.with_name(f"{worktree.name}.json")


def _read(file: Path) -> WorktreeRecord | None:
    try:
        return _READER.validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
