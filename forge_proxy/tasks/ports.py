"""What tasks need from outside: repositories with worktrees, checks, and batches. `forge_proxy.git`,
`forge_proxy.checks` and `forge_proxy.daemon` implement these ports; the values are in `core/tasks`.

A phase runs at least once, so every method that changes something may be called again with the same arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jobs.actions import NewJob
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.tasks.call_record import TaskCallRecord
from forge_proxy.core.tasks.findings import Baseline, ValidationResult
from forge_proxy.core.tasks.models import ValidationConfig
from forge_proxy.core.tasks.workspace import (
    FileContent,
    Leftover,
    MergeMethod,
    MergeResult,
    ReadTaskIds,
    RepositoryState,
    Worktree,
)


class Repositories(Protocol):
    """Git repositories. Every method may raise `GitFailed` for a transient reason, and `RepositoryUnusable`."""

    async def inspect(self, path: str, base: str | None, task_id: str) -> RepositoryState:
        """Return the state of an allowed repository; without `base`, its current branch is the base branch.

        Raises `RepositoryUnusable` if a task with this id cannot work in it: it is not allowed, not a repository, bare,
        shallow or empty, there is no such base branch, or the branch of the task exists already.
        """
        ...

    async def create_worktree(self, repository: str, task_id: str, commit: str) -> Worktree:
        """Create a worktree with the branch `forge/<task_id>` at `commit`, in place of one that exists.

        What an earlier attempt or a killed daemon has left under this id is removed first, also its branch (D15).
        """
        ...

    async def open_worktree(self, repository: str, task_id: str, commit: str) -> Worktree:
        """Return the worktree of a task, created from `commit`; create it again from its branch if it is missing."""
        ...

    async def reset(self, worktree: Worktree, commit: str | None = None) -> None:
        """Undo all changes since the head, or set the branch back to `commit`. Ignored files are kept (D23)."""
        ...

    async def ensure_reset(self, worktree: Worktree, commit: str) -> None:
        """Reset a worktree to `commit`, unless that was done already and nothing has been changed since.

        Before a check runs, something is written: a worktree in which one has run is not known to be unchanged.
        """
        ...

    async def remove_worktree(self, worktree: Worktree, *, keep_branch: bool = True) -> None:
        """Remove a worktree. Does nothing if there is none."""
        ...

    async def head(self, worktree: Worktree) -> str:
        """Return the commit at the head of the worktree."""
        ...

    async def read(self, worktree: Worktree, path: str) -> FileContent | None:
        """Return a file; None if there is none. Raises `UnsafePath`."""
        ...

    async def write(self, worktree: Worktree, files: Mapping[str, bytes]) -> None:
        """Write files, with the folders that they need. The modes of existing files are kept. Raises `UnsafePath`."""
        ...

    async def list_files(self, worktree: Worktree) -> Sequence[str]:
        """Return the paths of the tracked and the new, not ignored files, sorted."""
        ...

    async def changed_files(self, worktree: Worktree, since: str | None = None) -> Sequence[str]:
        """Return the paths that differ from the head, or from the commit `since`, sorted. New files count."""
        ...

    async def commit(self, worktree: Worktree, message: str, parent: str, paths: Sequence[str] | None = None) -> str:
        """Commit the changes of these paths, or all, onto `parent` and return the commit.

        If the head is already a commit onto `parent` with this message, and nothing has changed, returns the head:
        an earlier call was not stored.
        """
        ...

    async def read_committed(self, repository: str, commit: str, path: str) -> bytes | None:
        """Return a file as it is in a commit; None if there is none. Raises `UnsafePath`."""
        ...

    async def diff(self, repository: str, base: str, head: str) -> str:
        """Return the unified diff between two commits or branches."""
        ...

    async def diff_worktree(self, worktree: Worktree) -> str:
        """Return the unified diff of the changes that are not committed, new files included."""
        ...

    async def branch_head(self, repository: str, branch: str) -> str | None:
        """Return the commit of a branch; None if there is none."""
        ...

    async def merge(
        self, repository: str, branch: str, base: str, *, expected_head: str, expected_base: str,
        method: MergeMethod, message: str,
    ) -> MergeResult:  # fmt: skip
        """Merge a branch into the base branch. Conflicts are detected before anything is changed.

        Raises `MergeConflict` if there are any, if the head or the base is not as expected, or if the base branch is
        checked out with uncommitted changes.
        """
        ...

    async def list_leftovers(self, read_active: ReadTaskIds) -> Sequence[Leftover]:
        """Return the worktrees of tasks that are not active.

        `read_active` returns the ids of those that are. It is called after the worktrees were listed: a task that is
        submitted meanwhile had none.
        """
        ...

    async def remove_leftovers(self, read_active: ReadTaskIds) -> Sequence[Leftover]:
        """Remove the worktrees that `list_leftovers` returns, and return them. Their branches are kept."""
        ...

    async def delete_branch(self, repository: str, branch: str) -> None:
        """Delete a branch of a task. Does nothing if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What is to be checked."""

    worktree: Worktree
    files: tuple[str, ...]
    """The paths that the task has changed since its base, which linters and formatters look at."""
    config: ValidationConfig
    is_part: bool = False
    """Whether the rest of the change is missing: only what looks at single files is run, and no code is executed."""


class Checks(Protocol):
    """Fixers and deterministic checks (D12, D21). All methods may raise `CheckUnavailable`."""

    async def fix(self, request: CheckRequest) -> None:
        """Run the fixers on the files; the checks report what they cannot fix."""
        ...

    async def record_baseline(self, request: CheckRequest) -> Baseline:
        """Run the checks on an unchanged worktree and return what they find."""
        ...

    async def run(self, request: CheckRequest, baseline: Baseline) -> Sequence[ValidationResult]:
        """Run the checks in order: lint, format, types, tests. Findings of the baseline are not in the results."""
        ...


@dataclass(frozen=True, slots=True)
class BatchedResponse:
    """The response to a batched request."""

    body: JsonObject
    """A chat completion."""
    seconds: float
    """From the creation of the batch to its end."""


class BatchedRequestFailed(Exception):
    """A batched request has no response. `error` is what the request would have raised without a batch."""

    def __init__(self, error: ForgeError) -> None:
        super().__init__(str(error))
        self.error = error


class RequestBatches(Protocol):
    """Batches with one request each, which are child jobs of a task. All methods may raise `StoreUnavailable`."""

    async def prepare(self, request_id: str, body: bytes) -> NewJob:
        """Return the job of a batch whose line has this body; its file is stored.

        `request_id` is the same whenever the request is prepared: its file then replaces the earlier one.
        """
        ...

    async def read(self, batch_id: str) -> BatchedResponse:
        """Return the response in a batch that has ended. Raises `BatchedRequestFailed`."""
        ...

    async def discard(self, batch_id: str) -> None:
        """Delete a batch that has ended, with its files. Does nothing if there is none."""
        ...


class CallLog(Protocol):
    """Records of calls for observation. Tasks do not depend on it."""

    @property
    def dropped(self) -> int:
        """The records that could not be stored, of all tasks, since the daemon has started."""
        ...

    def record(self, call: TaskCallRecord) -> None:
        """Have a record stored, in place of an earlier one of the same call. Never waits, and never fails."""
        ...

    async def list(self, task_id: str) -> Sequence[TaskCallRecord]:
        """Return the records of a task, oldest first. Raises `StoreUnavailable`."""
        ...
