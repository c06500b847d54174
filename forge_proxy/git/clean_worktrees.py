"""Remembers which worktrees were reset and are unchanged since, so that an attempt resets its worktree once.

Nothing is stored: after a restart every worktree is reset again. What another process has done meanwhile, such as a
second daemon or the rest of a check that was killed, is noticed by the folders, the index and the branch; what it has
changed within existing files is found by git (`changes.are_files_unchanged`). `GitRepositories` forgets a worktree
before it writes to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forge_proxy.git.folders import Folders, make_removable
from forge_proxy.git.worktrees import OpenWorktree


@dataclass(frozen=True, slots=True)
class _CleanState:
    """A worktree as it was when it had been reset."""

    commit: str
    head: str
    branch: str | None
    index: tuple[int, int, int]
    """Inode, size in bytes, and time of the change in nanoseconds."""
    folders: Folders


class CleanWorktrees:
    """The worktrees that this daemon has reset. All methods but `forget` block."""

    def __init__(self) -> None:
        self._known: dict[Path, _CleanState] = {}

    def mark(self, worktree: OpenWorktree, commit: str, folders: Folders) -> None:
        """Remember that a worktree was reset to a commit. `folders` are those that it had before.

        Raises `OSError`.
        """
        if not folders.are_unchanged():  # the reset has created or deleted files
            folders = make_removable(worktree.path)
        self._known[worktree.path] = _read_state(worktree, commit, folders)

    def forget(self, path: Path) -> None:
        """Forget a worktree that is going to be changed or removed."""
        self._known.pop(path, None)

    def contains(self, worktree: OpenWorktree, commit: str) -> bool:
        """Whether a worktree was reset to a commit and is unchanged."""
        known = self._known.get(worktree.path)
        if known is None:
            return False
        try:
            return known == _read_state(worktree, commit, known.folders) and known.folders.are_unchanged()
        except OSError:  # it is being removed
            return False


def _read_state(worktree: OpenWorktree, commit: str, folders: Folders) -> _CleanState:
    """Return the state of a worktree with these folders. Raises `OSError`."""
    assert worktree.record.git_dir is not None  # noqa: S101  # it is open
    index = (worktree.record.git_dir / "index").stat()
    return _CleanState(
        commit,
        worktree.read_head(),
        worktree.read_branch(),
        (index.st_ino, index.st_size, index.st_mtime_ns),
        folders,
    )
