"""Stores files of a worktree in an index of its own, so that a killed daemon leaves nothing staged."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forge_proxy.core.tasks.errors import UnsafePath
from forge_proxy.git.output import split_output
from forge_proxy.git.program import GitPlace, in_index
from forge_proxy.git.worktrees import OpenWorktree

FILE_MODES = ("100644", "100755", "000000")
"""Regular files, and no file. Symlinks and nested repositories are never committed."""


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """The head of a worktree with some of its files as they are now."""

    worktree: OpenWorktree
    tree: str
    paths: Collection[str]
    """The paths that differ from the head."""
    is_complete: bool
    """Whether the index has entries for all files of the worktree, so that it can replace the worktree's own index."""

    async def adopt(self, commit: str) -> None:
        """Make the index of the worktree that of a commit with these files. Git does not read the others again."""
        if not (self.is_complete and await asyncio.to_thread(_replace_index, self.worktree)):
            await update_index(self.worktree, commit)


async def stage_files(worktree: OpenWorktree, paths: Sequence[str]) -> StagedFiles:
    """Store files as they are now. Raises `UnsafePath`, also for a file that cannot be committed."""
    place = in_index(worktree.place, _staging_index(worktree))
    is_complete = await asyncio.to_thread(_link_index, worktree)
    if is_complete:
        tree, found = await _update(worktree, place, paths)
        if {*found} <= {*paths}:
            return StagedFiles(worktree, tree, found, is_complete=True)
        # Something else is staged there, or a file takes the place of a folder.
    await asyncio.to_thread(_staging_index(worktree).unlink, missing_ok=True)
    await worktree.repository.git.run("read-tree", worktree.reference, place=place)
    tree, found = await _update(worktree, place, paths)
    return StagedFiles(worktree, tree, found, is_complete=False)


async def update_index(worktree: OpenWorktree, commit: str) -> None:
    """Make the index of a worktree that of a commit. Git does not read the unchanged files again."""
    git = worktree.repository.git
    if worktree.repository.is_sparse:  # git refuses to reset an index that says of a file that git ignores it
        place = in_index(worktree.place, _staging_index(worktree))
        await asyncio.to_thread(_staging_index(worktree).unlink, missing_ok=True)
        await git.run("read-tree", commit, place=place)
        await git.run("update-index", "--refresh", place=place, accept=(0, 1))
        if await asyncio.to_thread(_replace_index, worktree):
            return
    await git.run("read-tree", "--reset", commit, place=worktree.place)
    await git.run("update-index", "--refresh", place=worktree.place, accept=(0, 1))


async def _update(worktree: OpenWorktree, place: GitPlace, paths: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Put files into an index. Return its tree, and the paths that differ from the head. Raises `UnsafePath`."""
    git = worktree.repository.git
    names = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    await git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", place=place, stdin=names)
    tree, raw = await asyncio.gather(
        git.run("write-tree", place=place),
        git.run("diff-index", "--cached", "--raw", "-z", "--no-renames", worktree.reference, place=place),
    )
    entries = iter(split_output(raw.out))
    found: list[str] = []
    for entry, path in zip(entries, entries, strict=True):
        if entry.split()[1] not in FILE_MODES:
            raise UnsafePath(path, "it is a symlink or a nested repository, which a task cannot commit")
        found.append(path)
    return tree.out.decode().strip(), found


def _link_index(worktree: OpenWorktree) -> bool:
    """Begin with the index of the worktree, and return whether there is one that fits.

    It is linked and not copied: git replaces an index as a whole, and compares its time with those of files.
    """
    index = _staging_index(worktree)
    index.unlink(missing_ok=True)
    if worktree.repository.is_sparse:  # such an index says of files that git ignores them
        return False
    try:
        os.link(index.with_name("index"), index)
    except OSError:  # there is none, or the file system has no links
        return False
    return True


def _replace_index(worktree: OpenWorktree) -> bool:
    """Put the staged index in place of that of the worktree; return False while another git holds its lock."""
    index = _staging_index(worktree)
    lock = index.with_name("index.lock")
    try:
        os.link(index, lock)
    except OSError:
        return False
    with suppress(FileNotFoundError):  # both names are one file: then they stay
        lock.replace(index.with_name("index"))
        lock.unlink()
    index.unlink()
    return True


def _staging_index(worktree: OpenWorktree) -> Path:
    assert worktree.record.git_dir is not None  # noqa: S101  # it is open
    return worktree.record.git_dir / "forge-index"
