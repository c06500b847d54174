"""The folders of a worktree: whether the daemon may change them, what was created there, and what is in the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias

_Times: TypeAlias = tuple[int, int, int, int]
"""Inode and mode of a folder, and when its entries and it itself were changed, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Folders:
    """A folder, which comes first, and all folders below it, as they were when they were listed."""

    times: Mapping[str, _Times]
    is_plain: bool
    """Whether no folder is empty, since git stores no empty ones, and none needed a change of its mode."""

    def are_unchanged(self) -> bool:
        """Whether nothing was created, deleted or renamed in them. The content of files does not matter."""
        try:
            return all(_times_of(os.lstat(path)) == times for path, times in self.times.items())
        except OSError:  # one was deleted
            return False


def make_removable(folder: Path) -> Folders:
    """Let the owner list and change all folders below `folder`, without following symlinks, and return them."""
    found: dict[str, _Times] = {}
    pending = [os.fspath(folder)]
    is_plain = True
    while pending:
        current = pending.pop()
        status = os.lstat(current)
        if stat.S_IMODE(status.st_mode) & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(current, stat.S_IRWXU)  # noqa: PTH101  # a Path for each folder takes longer than its listing
            status = os.lstat(current)
            is_plain = False
        found[current] = _times_of(status)
        with os.scandir(current) as entries:
            listed = [*entries]
        is_plain = is_plain and bool(listed)
        pending += [entry.path for entry in listed if entry.is_dir(follow_symlinks=False)]
    return Folders(found, is_plain)


def find_obstacles(folder: Path, added: Sequence[str], deleted: Collection[str]) -> Sequence[str]:
    """Return the files below a folder that are in the place of `added` ones. Those in `deleted` make way for them."""
    found: set[str] = set()
    for path in added:
        parents = [parent.as_posix() for parent in PurePosixPath(path).parents][:-1]
        found |= {one for one in parents if os.path.lexists(folder / one) and not _is_folder(folder / one)}
        if _is_folder(folder / path):
            found |= {
                file.relative_to(folder).as_posix() for file in (folder / path).rglob("*") if not _is_folder(file)
            }
        elif os.path.lexists(folder / path):
            found.add(path)
    return sorted(found - {*deleted})


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _times_of(status: os.stat_result) -> _Times:
    return status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns
