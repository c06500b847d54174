"""`tasks.ports.Repositories` with the git program."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from cachetools import LRUCache

from forge_proxy.core.tasks.errors import GitFailed, RepositoryUnusable, UnsafePath
from forge_proxy.core.tasks.ids import is_sub_task_id
from forge_proxy.core.tasks.workspace import (
    FileContent,
    Leftover,
    MergeMethod,
    MergeResult,
    ReadTaskIds,
    RepositoryState,
    Worktree,
)
from forge_proxy.git import changes, review
from forge_proxy.git.allowed import AllowedRepositories
from forge_proxy.git.clean_worktrees import CleanWorktrees
from forge_proxy.git.files import WorktreeFiles
from forge_proxy.git.inspection import inspect_repository
from forge_proxy.git.program import GitProgram
from forge_proxy.git.repository import GitRepository, check_commit, find_folder, open_repository
from forge_proxy.git.worktree_records import WorktreeRecord
from forge_proxy.git.worktrees import OpenWorktree, WorktreeFolder, delete_branch

_MAX_DIFF_BYTES = 1024 * 1024
_MAX_CACHED = 100
"""Committed files in memory: instructions, settings of tools, and files that are to be formatted."""


class GitRepositories:
    """The repositories that tasks may use, with worktrees below a folder of the daemon."""

    def __init__(self, git: GitProgram, folder: Path, allowed: AllowedRepositories) -> None:
        self._git = git
        self._worktrees = WorktreeFolder(folder)
        self._allowed = allowed
        self._opened: dict[Path, GitRepository] = {}
        self._submodules: dict[Path, Sequence[str]] = {}
        self._clean = CleanWorktrees()
        self._committed: LRUCache[tuple[str, str, str], bytes | None] = LRUCache(_MAX_CACHED)

    async def inspect(self, path: str, base: str | None, task_id: str) -> RepositoryState:
        """See `Repositories`."""
        top = await asyncio.to_thread(find_folder, Path(path))
        if top is None:
            raise RepositoryUnusable(f"{path}: there is no such folder")
        if not self._allowed.is_allowed(top):
            raise RepositoryUnusable(
                f"tasks may not use {top}; run `forge-proxy tasks allow {top}` or add it to tasks.repositories"
            )
        self._opened.pop(top, None)
        repository = await self._open(top)
        state = await inspect_repository(repository, base)
        await self._worktrees.check_branch(repository, task_id, is_new=True)
        return state

    async def create_worktree(self, repository: str, task_id: str, commit: str) -> Worktree:
        """See `Repositories`."""
        opened = await self._open(Path(repository))
        created = await self._worktrees.create(opened, task_id, await check_commit(opened, commit))
        self._clean.forget(created.path)  # of the worktree that was there before
        return _to_value(created)

    async def open_worktree(self, repository: str, task_id: str, commit: str) -> Worktree:
        """See `Repositories`."""
        return _to_value(await self._worktrees.open(await self._open(Path(repository)), task_id, commit))

    async def reset(self, worktree: Worktree, commit: str | None = None) -> None:
        """See `Repositories`."""
        opened = await self._enter(worktree)
        target = commit or await opened.head()
        self._clean.forget(opened.path)
        folders = await changes.reset(opened, target)
        await asyncio.to_thread(self._clean.mark, opened, target, folders)

    async def ensure_reset(self, worktree: Worktree, commit: str) -> None:
        """See `Repositories`."""
        opened = await self._enter(worktree)
        is_clean = await asyncio.to_thread(self._clean.contains, opened, commit)
        if not is_clean or not await changes.are_files_unchanged(opened):
            await self.reset(worktree, commit)

    async def remove_worktree(self, worktree: Worktree, *, keep_branch: bool = True) -> None:
        """See `Repositories`."""
        repository = await self._open(Path(worktree.repository))
        self._clean.forget(Path(worktree.path))
        await self._worktrees.remove(repository, worktree.task_id, keep_branch=keep_branch)

    async def head(self, worktree: Worktree) -> str:
        """See `Repositories`."""
        return await (await self._enter(worktree)).head()

    async def read(self, worktree: Worktree, path: str) -> FileContent | None:
        """See `Repositories`."""
        await self._check_submodules(worktree, [path])
        return await asyncio.to_thread(WorktreeFiles(Path(worktree.path)).read, path)

    async def write(self, worktree: Worktree, files: Mapping[str, bytes]) -> None:
        """See `Repositories`."""
        await self._check_submodules(worktree, files)
        opened = await self._enter(worktree)
        self._clean.forget(opened.path)
        for path, name in (await changes.list_filters(opened, list(files))).items():
            raise UnsafePath(
                path, f"git's filter {name!r} processes the file (.gitattributes); tasks do not write those"
            )
        await asyncio.to_thread(WorktreeFiles(opened.path).write, files)

    async def list_files(self, worktree: Worktree) -> Sequence[str]:
        """See `Repositories`."""
        return await changes.list_files(await self._enter(worktree))

    async def changed_files(self, worktree: Worktree, since: str | None = None) -> Sequence[str]:
        """See `Repositories`."""
        return await changes.changed_files(await self._enter(worktree), since)

    async def commit(self, worktree: Worktree, message: str, parent: str, paths: Sequence[str] | None = None) -> str:
        """See `Repositories`. With `paths`, other changes stay uncommitted: what a check has left behind."""
        return await changes.commit_changes(await self._enter(worktree), message, parent, paths)

    async def diff(self, repository: str, base: str, head: str) -> str:
        """See `Repositories`. Longer diffs are cut in the middle."""
        return await (await self._open(Path(repository))).diff(base, head, _MAX_DIFF_BYTES)

    async def diff_worktree(self, worktree: Worktree) -> str:
        """See `Repositories`."""
        return await changes.diff_worktree(await self._enter(worktree), _MAX_DIFF_BYTES)

    async def branch_head(self, repository: str, branch: str) -> str | None:
        """See `Repositories`."""
        return await (await self._open(Path(repository))).branch_head(branch)

    async def merge(
        self, repository: str, branch: str, base: str, *, expected_head: str, expected_base: str,
        method: MergeMethod, message: str,
    ) -> MergeResult:  # fmt: skip
        """See `Repositories`."""
        approval = review.Approval(branch, base, expected_head, expected_base, method, message)
        return await review.merge(await self._open(Path(repository)), approval)

    async def delete_branch(self, repository: str, branch: str) -> None:
        """See `Repositories`."""
        await delete_branch(await self._open(Path(repository)), branch)

    async def read_committed(self, repository: str, commit: str, path: str) -> bytes | None:
        """Return a file as it is in a commit; None if there is none."""
        key = repository, commit, path
        if key not in self._committed:  # a commit does not change
            self._committed[key] = await (await self._open(Path(repository))).read_committed(commit, path)
        return self._committed[key]

    async def list_leftovers(self, read_active: ReadTaskIds) -> Sequence[Leftover]:
        """See `Repositories`."""
        return self._describe(await self._find_leftovers(read_active))

    async def remove_leftovers(self, read_active: ReadTaskIds) -> Sequence[Leftover]:
        """See `Repositories`. Branches of sub-tasks go with their worktrees."""
        found = await self._find_leftovers(read_active)
        for record in found:
            try:
                repository = await self._open(record.repository)
                keep = not is_sub_task_id(record.task_id)
                await self._worktrees.remove(repository, record.task_id, keep_branch=keep)
            except RepositoryUnusable:  # it was moved or deleted
                pass
            await self._worktrees.discard(record)
        return self._describe(found)

    async def _find_leftovers(self, read_active: ReadTaskIds) -> Sequence[WorktreeRecord]:
        records = [*self._worktrees.list_records()]
        active = await read_active()
        return [record for record in records if record.task_id not in active]

    def _describe(self, records: Sequence[WorktreeRecord]) -> Sequence[Leftover]:
        return [
            Leftover(record.task_id, str(record.repository), str(self._worktrees.path_of(record)), record.branch)
            for record in records if not record.is_released
        ]  # fmt: skip

    async def _open(self, path: Path) -> GitRepository:
        """Open a repository, once while it stays where it is."""
        opened = self._opened.get(path)
        if opened is None or not (opened.place.git_dir / "HEAD").exists():
            opened = self._opened[path] = await open_repository(self._git, path)
        return opened

    async def _enter(self, worktree: Worktree) -> OpenWorktree:
        repository = await self._open(Path(worktree.repository))
        opened = self._worktrees.find(repository, worktree.task_id)
        if opened is None:
            raise GitFailed(f"the worktree of {worktree.task_id} is missing: {worktree.path}")
        return opened

    async def _check_submodules(self, worktree: Worktree, paths: Collection[str]) -> None:
        """Raise `UnsafePath` for a path inside a submodule, whose files are not part of the repository."""
        known = self._submodules.get(Path(worktree.path))
        if known is None:
            opened = await self._enter(worktree)
            known = self._submodules[opened.path] = await changes.list_submodules(opened)
        for path in paths:
            for submodule in known:
                if f"{path}/".startswith(f"{submodule}/"):
                    raise UnsafePath(path, f"it is in the submodule {submodule!r}; run a task in its own repository")


def _to_value(opened: OpenWorktree) -> Worktree:
    record = opened.record
    return Worktree(record.task_id, str(record.repository), str(opened.path), record.branch, record.base_commit)
