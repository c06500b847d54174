"""The files that are checked: read, and restored if a check has changed them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from forge_proxy.core.tasks.errors import UnsafePath
from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.workspace import FileContent, Worktree


class SourceFiles(Protocol):
    """Access to files of a worktree and of commits. `git/repositories.py` has one."""

    async def read(self, worktree: Worktree, path: str) -> FileContent | None:
        """Return a file; None if there is none. Raises `UnsafePath`."""
        ...

    async def write(self, worktree: Worktree, files: Mapping[str, bytes]) -> None:
        """Write files. Raises `UnsafePath`."""
        ...

    async def read_committed(self, repository: str, commit: str, path: str) -> bytes | None:
        """Return a file as it is in a commit; None if there is none."""
        ...


async def find_files(worktree: Worktree, paths: Sequence[str]) -> Sequence[str]:
    """Return the paths that are files of the worktree and not reached through symlinks, which a fixer would follow."""

    def find() -> Sequence[str]:
        top = Path(worktree.path).resolve()
        return [path for path in paths if (top / path).is_file() and (top / path).resolve() == top / path]

    return await asyncio.to_thread(find)


async def read_contents(files: SourceFiles, worktree: Worktree, paths: Iterable[str]) -> Mapping[str, FileContent]:
    """Return the contents of those paths that are files. Raises `UnsafePath`."""
    found: dict[str, FileContent] = {}
    for path in paths:
        content = await files.read(worktree, path)
        if content is not None:
            found[path] = content
    return found


async def restore_contents(
    files: SourceFiles, worktree: Worktree, before: Mapping[str, FileContent]
) -> Sequence[Finding]:
    """Restore the files that a check has changed, and return a finding for each: what was checked is committed.

    A changed mode is a finding, too; the reset after the failed attempt restores it.
    """
    found: list[Finding] = []
    for path, content in before.items():
        try:
            if await files.read(worktree, path) == content:
                continue
            await files.write(worktree, {path: content.data})
        except UnsafePath:  # it is a symlink now; the worktree is reset after a failed attempt
            pass
        found.append(Finding("sources", "a check has changed this file; tests must not write to sources", path))
    return found
