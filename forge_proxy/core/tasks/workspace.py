"""Values that describe the repository of a task. The git adapter returns them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

ReadTaskIds: TypeAlias = Callable[[], Awaitable[Collection[str]]]
"""Reads the ids of tasks from where they are stored."""


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """A repository in which a task can work."""

    path: str
    """The absolute path of its top folder, without symlinks."""
    base_branch: str
    base_commit: str


@dataclass(frozen=True, slots=True)
class Worktree:
    """A working copy of a repository that belongs to one task."""

    task_id: str
    repository: str
    """The path of the repository."""
    path: str
    branch: str
    base_commit: str
    """The commit that it was created from."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file of a worktree as stored."""

    data: bytes
    is_executable: bool = False


@dataclass(frozen=True, slots=True)
class Leftover:
    """A worktree that no task needs."""

    task_id: str
    repository: str
    path: str
    branch: str
    """The branch of the worktree, which is kept with its commits."""


MergeMethod: TypeAlias = Literal["merge", "squash", "rebase"]


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A branch that was merged."""

    commit: str
    """The new head of the base branch."""
    updated_checkout: str | None = None
    """The path of the checkout of the base branch that was updated with it, if there is one."""
