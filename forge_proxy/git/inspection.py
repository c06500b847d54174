"""Finds out whether a task can work in a repository, before a model is called."""

from __future__ import annotations

from forge_proxy.core.tasks.errors import RepositoryUnusable
from forge_proxy.core.tasks.workspace import RepositoryState
from forge_proxy.git.repository import GitRepository, list_branches


async def inspect_repository(repository: GitRepository, base: str | None) -> RepositoryState:
    """Return the base branch and its commit. Raises `RepositoryUnusable` with the reason.

    A bare or shallow repository, a sparse checkout or one with uncommitted changes, submodules, Git LFS and any line
    endings are fine: tasks work on commits in worktrees of their own, which have all files. `git/files.py` rejects
    single files of submodules and LFS.
    """
    current = await _read_symbolic(repository, "HEAD")
    branch = base or current
    if branch is None:
        raise RepositoryUnusable(
            f"{repository.path} has a detached HEAD, so there is no current branch; name the base branch"
        )
    if base is not None and not await _is_branch_name(repository, base):
        raise RepositoryUnusable(f"{base!r} is not a name of a branch; name the base branch as `git branch` prints it")
    branch = await _read_symbolic(repository, f"refs/heads/{branch}") or branch  # a branch may be another name of one
    commit = await repository.branch_head(branch)
    if commit is None:
        raise RepositoryUnusable(await _explain_missing(repository, branch))
    await _check_complete(repository, branch, commit)
    return RepositoryState(str(repository.path), branch, commit)


async def _read_symbolic(repository: GitRepository, name: str) -> str | None:
    """Return the branch to which a symbolic reference leads; None if it is not a symbolic reference.

    Git's own short names are longer if there is also a tag of the name.
    """
    ended = await repository.git.run("symbolic-ref", "--quiet", name, place=repository.place, accept=(0, 1, 128))
    return ended.out.decode().strip().removeprefix("refs/heads/") or None


async def _is_branch_name(repository: GitRepository, name: str) -> bool:
    ended = await repository.git.run(
        "check-ref-format", f"refs/heads/{name}", place=repository.place, accept=(0, 1, 128, 129)
    )
    return ended.code == 0 and not name.startswith("-")


async def _check_complete(repository: GitRepository, branch: str, commit: str) -> None:
    """Raise `RepositoryUnusable` if a partial clone lacks files, because git fetches nothing for a task."""
    if not repository.is_partial:
        return
    listed = await repository.text("rev-list", "--objects", "--no-object-names", "--missing=print", "--no-walk", commit)
    if missing := sum(line.startswith("?") for line in listed.splitlines()):
        raise RepositoryUnusable(
            f"{repository.path} is a partial clone that lacks {missing} files of {branch};"
            " fetch them: git fetch --refetch --no-filter"
        )


async def _explain_missing(repository: GitRepository, branch: str) -> str:
    branches = await list_branches(repository)
    if not branches:
        return f"{repository.path} has no commit yet; commit at least one file"
    return f"{repository.path} has no branch {branch!r}; its branches: {', '.join(branches)}"
