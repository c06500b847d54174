"""Worktrees of tasks: created with their branch, opened again after a restart, removed.

Creation may be repeated after a crash at any point: what is incomplete is removed and created again.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakValueDictionary

from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from forge_proxy.core.tasks.errors import GitFailed, RepositoryUnusable
from forge_proxy.core.tasks.ids import branch_of
from forge_proxy.git.folders import make_removable
from forge_proxy.git.program import GitPlace
from forge_proxy.git.repository import GitRepository, find_checkout, read_loose_reference
from forge_proxy.git.worktree_records import WorktreeRecord, WorktreeRecords

_CREATE_SECONDS = 600.0
_LOCKS = ("index.lock", "HEAD.lock", "ORIG_HEAD.lock")


@dataclass(frozen=True, slots=True)
class OpenWorktree:
    """A complete worktree."""

    repository: GitRepository
    record: WorktreeRecord
    path: Path
    place: GitPlace

    @property
    def reference(self) -> str:
        """The full name of its branch."""
        return f"refs/heads/{self.record.branch}"

    async def head(self) -> str:
        """Return the commit at the head of its branch. Raises `GitFailed`."""
        if (known := self.read_branch()) is not None:
            return known
        return await self.repository.text("rev-parse", "--verify", f"{self.reference}^{{commit}}")

    def read_branch(self) -> str | None:
        """Return the commit at the head of its branch from its file, which is faster; None if git has packed it."""
        return read_loose_reference(self.repository.place.git_dir, self.reference)

    def read_head(self) -> str:
        """Return the text of its `HEAD`. Raises `OSError`."""
        assert self.record.git_dir is not None  # noqa: S101  # it is open
        return (self.record.git_dir / "HEAD").read_text("utf-8", "surrogateescape").strip()


class WorktreeFolder:
    """The worktrees below a folder of the daemon."""

    def __init__(self, folder: Path) -> None:
        self._records = WorktreeRecords(folder)
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._opened: set[Path] = set()

    async def check_branch(self, repository: GitRepository, task_id: str, *, is_new: bool) -> None:
        """Raise `RepositoryUnusable` if the branch of a task exists and is not its own.

        For a new task, a branch that an earlier one with its id has left for a review is not its own.
        """
        branch = branch_of(task_id)
        record = self._records.read(repository.path, task_id)
        if record is not None and not (is_new and record.is_released):
            return
        if await repository.branch_head(branch) is not None:
            raise RepositoryUnusable(
                f"{repository.path} already has a branch {branch}; choose another task id, or delete it: git branch -D"
                f" {branch}"
            )
        parent = branch.partition("/")[0]
        if await repository.branch_head(parent) is not None:
            raise RepositoryUnusable(
                f"{repository.path} has a branch {parent!r}, so git cannot create {branch}; rename that branch"
            )

    async def create(self, repository: GitRepository, task_id: str, commit: str) -> OpenWorktree:
        """Create a worktree at a commit in place of one that exists, also of its branch."""
        async with self._lock(repository):
            await self.check_branch(repository, task_id, is_new=False)
            if (old := self._records.read(repository.path, task_id)) is not None:
                await self._remove(repository, old, keep_branch=False)
            return await self._add(repository, WorktreeRecord(task_id, repository.path, branch_of(task_id), commit))

    async def open(self, repository: GitRepository, task_id: str, commit: str) -> OpenWorktree:
        """Return the worktree of a task. If it is missing or incomplete, it is created again from its branch."""
        async with self._lock(repository):
            record = self._records.read(repository.path, task_id)
            if record and self._is_complete(record):
                return self._enter(repository, record)
            if record is None:
                record = WorktreeRecord(task_id, repository.path, branch_of(task_id), commit)
            await self._remove(repository, record, keep_branch=True)
            return await self._add(repository, replace(record, git_dir=None, is_released=False))

    def find(self, repository: GitRepository, task_id: str) -> OpenWorktree | None:
        """Return the worktree of a task; None if it is missing or incomplete."""
        record = self._records.read(repository.path, task_id)
        return self._enter(repository, record) if record and self._is_complete(record) else None

    async def remove(self, repository: GitRepository, task_id: str, *, keep_branch: bool) -> None:
        """Remove a worktree. Does nothing if there is none."""
        async with self._lock(repository):
            if record := self._records.read(repository.path, task_id):
                await self._remove(repository, record, keep_branch=keep_branch)

    def list_records(self) -> Sequence[WorktreeRecord]:
        """Return the records of all worktrees, also of incomplete ones."""
        return list(self._records)

    async def discard(self, record: WorktreeRecord) -> None:
        """Remove the files of a worktree, if they are still there, and its record."""
        await asyncio.to_thread(_delete_folder, self._records.path_of(record.repository, record.task_id))
        self._records.delete(record)

    def path_of(self, record: WorktreeRecord) -> Path:
        """Return the path of a worktree."""
        return self._records.path_of(record.repository, record.task_id)

    async def _add(self, repository: GitRepository, record: WorktreeRecord) -> OpenWorktree:
        path = self.path_of(record)
        self._records.write(record)
        await asyncio.to_thread(_delete_folder, path)  # of a daemon whose record was lost
        exists = await repository.branch_head(record.branch) is not None
        start = [str(path), record.branch] if exists else ["-b", record.branch, str(path), record.base_commit]
        await repository.git.run(
            "worktree", "add", "--quiet", "--lock", "--reason", f"task {record.task_id} of forge-proxy", *start,
            place=repository.place, seconds=_CREATE_SECONDS,
        )  # fmt: skip
        ended = await repository.git.run("rev-parse", "--absolute-git-dir", cwd=path)
        complete = replace(record, git_dir=Path(ended.out.decode().rstrip("\n")))
        self._records.write(complete)
        return self._enter(repository, complete)

    def _enter(self, repository: GitRepository, record: WorktreeRecord) -> OpenWorktree:
        assert record.git_dir is not None  # noqa: S101  # it is complete
        path = self.path_of(record)
        if path not in self._opened:
            self._opened.add(path)
            _remove_locks(repository, record)
        return OpenWorktree(repository, record, path, replace(repository.place, git_dir=record.git_dir, work_tree=path))

    def _is_complete(self, record: WorktreeRecord) -> bool:
        return record.git_dir is not None and (record.git_dir / "HEAD").exists() and self.path_of(record).is_dir()

    async def _remove(self, repository: GitRepository, record: WorktreeRecord, *, keep_branch: bool) -> None:
        """Remove the files of a worktree and what git knows of it, at last its record: this may be repeated."""
        path = self.path_of(record)
        self._opened.discard(path)
        await asyncio.to_thread(_delete_folder, path)
        await repository.git.run("worktree", "remove", "-f", "-f", str(path), place=repository.place, accept=(0, 128))
        await asyncio.to_thread(_delete_administration, repository.place.git_dir / "worktrees", path)
        if not keep_branch:
            await delete_branch(repository, record.branch)
        if keep_branch and await repository.branch_head(record.branch) is not None:
            self._records.write(replace(record, git_dir=None, is_released=True))
        else:
            self._records.delete(record)

    def _lock(self, repository: GitRepository) -> asyncio.Lock:
        lock = self._locks.get(repository.path)
        if lock is None:
            lock = self._locks[repository.path] = asyncio.Lock()
        return lock


async def delete_branch(repository: GitRepository, branch: str) -> None:
    """Delete a branch. Does nothing if there is none. Raises `GitFailed` if it is checked out."""
    reference = f"refs/heads/{branch}"
    if (commit := await repository.branch_head(branch)) is None:
        return
    if (checkout := await find_checkout(repository, branch)) is not None:
        raise GitFailed(f"the branch {branch} is checked out at {checkout}; check out another branch there")
    await repository.git.run("update-ref", "-d", reference, commit, place=repository.place)


def _remove_locks(repository: GitRepository, record: WorktreeRecord) -> None:
    """Remove the locks that git left in a worktree when the machine was switched off.

    Only for a worktree that this daemon has not used before: no git of the daemon works there, and git ends with it.
    """
    assert record.git_dir is not None  # noqa: S101
    for name in _LOCKS:
        (record.git_dir / name).unlink(missing_ok=True)
    (repository.place.git_dir / "refs" / "heads" / f"{record.branch}.lock").unlink(missing_ok=True)


def _delete_administration(folder: Path, worktree: Path) -> None:
    """Delete what git knows of a worktree and does not list, because it was killed while it created it."""
    for entry in folder.glob("*") if folder.is_dir() else ():
        pointer = entry / "gitdir"
        named = pointer.read_text().strip() if pointer.exists() else ""
        if named == str(worktree / ".git") or (not named and entry.name == worktree.name):
            shutil.rmtree(entry)


def _is_not_empty(error: BaseException) -> bool:
    """Whether another process has written into a folder while it was deleted."""
    return isinstance(error, OSError) and error.errno == errno.ENOTEMPTY


def _delete_folder(path: Path) -> None:
    # The git of a daemon that was killed may have children that still write: they follow the folder to its new name.
    doomed = path.with_name(f".{path.name}.deleted")
    _delete_tree(doomed)
    if path.is_symlink():
        path.unlink()
    if path.exists():
        make_removable(path)
        path.rename(doomed)
        _delete_tree(doomed)


@retry(retry=retry_if_exception(_is_not_empty), wait=wait_fixed(0.05), stop=stop_after_delay(5), reraise=True)
def _delete_tree(path: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(path)
