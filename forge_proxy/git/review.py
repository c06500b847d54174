"""Merges the branch of a task into its base branch, when a person has approved it.

The merge is computed from commits alone. Only if it has no conflicts, the base branch is moved, by a compare-and-swap
from the commit that the person has seen, and then a checkout of it is updated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forge_proxy.core.tasks.errors import GitFailed, MergeConflict
from forge_proxy.core.tasks.workspace import MergeMethod, MergeResult
from forge_proxy.git.folders import find_obstacles
from forge_proxy.git.output import split_output
from forge_proxy.git.program import GitPlace
from forge_proxy.git.repository import GitRepository, find_checkout

_LISTED = 10
"""How many paths an error names."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person has approved: these commits, merged in this way."""

    branch: str
    base: str
    head_commit: str
    base_commit: str
    method: MergeMethod
    message: str


async def merge(repository: GitRepository, approval: Approval) -> MergeResult:
    """Merge, and return the new head of the base branch. May be repeated after a crash.

    Raises `MergeConflict` and `GitFailed`; nothing is changed then, unless the message says so.
    """
    head = await repository.branch_head(approval.branch)
    if head != approval.head_commit:
        raise MergeConflict(_describe_moved("branch of the task", approval.branch, head, approval.head_commit))
    tree, commits = await _compute(repository, approval)
    checkout = await _find_checkout(repository, approval.base)
    base = await repository.branch_head(approval.base)
    if base is not None and await repository.tree_of(base) == tree:
        merged = base  # by an earlier call, whose result was not stored
    elif base != approval.base_commit:
        raise MergeConflict(_describe_moved("base branch", approval.base, base, approval.base_commit))
    else:
        merged = await _move_base(repository, checkout, approval, tree, commits)
    if checkout:
        await _update_checkout(repository, checkout, approval, merged)
    return MergeResult(merged, str(checkout.work_tree) if checkout else None)


async def _move_base(
    repository: GitRepository, checkout: GitPlace | None, approval: Approval, tree: str, commits: Sequence[str]
) -> str:
    """Create the commits of the result, move the base branch to the last one, and return it."""
    if checkout:
        await _check_clean(repository, checkout, approval, tree)
    merged = await _build(repository, approval, tree, commits)
    await repository.git.run(
        "update-ref", "-m", f"forge-proxy: {approval.method} {approval.branch}", f"refs/heads/{approval.base}",
        merged, approval.base_commit, place=repository.place,
    )  # fmt: skip
    return merged


async def _compute(repository: GitRepository, approval: Approval) -> tuple[str, Sequence[str]]:
    """Return the tree of the result, and for a rebase the commits to apply. Raises `MergeConflict`."""
    base, head = approval.base_commit, approval.head_commit
    if await repository.resolve(base) is None:
        raise MergeConflict(f"the expected base commit {base} does not exist")
    if approval.method != "rebase":
        return await _merge_trees(repository, base, head, approval), ()
    commits = (await repository.text("rev-list", "--reverse", "--no-merges", f"{base}..{head}")).split()
    tree = await repository.tree_of(base)
    for commit in commits:
        parent = await repository.text("rev-parse", "--verify", f"{commit}^")
        # A commit with the tree so far and the parent of the one to apply makes that parent the merge base.
        onto = await repository.text("commit-tree", tree, "-p", parent, "-m", "merge base")
        tree = await _merge_trees(repository, onto, commit, approval)
    return tree, commits


async def _merge_trees(repository: GitRepository, ours: str, theirs: str, approval: Approval) -> str:
    ended = await repository.git.run(
        "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs,
        place=repository.place, accept=(0, 1),
    )  # fmt: skip
    tree, *paths = [part for part in ended.out.decode("utf-8", "replace").split("\0") if part]
    if ended.code:
        raise MergeConflict(
            f"{approval.branch} conflicts with {approval.base}; request changes, or merge the branches by hand",
            sorted(set(paths))[:_LISTED],
        )
    return tree


async def _build(repository: GitRepository, approval: Approval, tree: str, commits: Sequence[str]) -> str:
    """Create the commits of the result and return the last one."""
    base = approval.base_commit
    if approval.method == "rebase":
        return await _apply(repository, base, commits)
    parents = [base, approval.head_commit] if approval.method == "merge" else [base]
    words = [word for parent in parents for word in ("-p", parent)]
    return await repository.text("commit-tree", tree, *words, "-F", "-", stdin=approval.message.encode())


async def _apply(repository: GitRepository, base: str, commits: Sequence[str]) -> str:
    """Apply commits onto another one, each with its author and message."""
    committer = await repository.text("var", "GIT_COMMITTER_IDENT")
    current = base
    for commit in commits:
        parent = await repository.text("rev-parse", "--verify", f"{commit}^")
        if parent == current:  # nothing was committed to the base meanwhile
            current = commit
            continue
        onto = await repository.text("commit-tree", f"{current}^{{tree}}", "-p", parent, "-m", "merge base")
        tree = await repository.text("merge-tree", "--write-tree", onto, commit)
        written = (await repository.git.run("cat-file", "commit", commit, place=repository.place)).out
        header, _, message = written.partition(b"\n\n")
        author = next(line for line in header.splitlines() if line.startswith(b"author "))
        lines = [f"tree {tree}".encode(), f"parent {current}".encode(), author, f"committer {committer}".encode()]
        current = await repository.text(
            "hash-object", "-t", "commit", "-w", "--stdin", stdin=b"\n".join(lines) + b"\n\n" + message
        )
    return current


async def _find_checkout(repository: GitRepository, branch: str) -> GitPlace | None:
    """Return where a branch is checked out, if it is."""
    if (folder := await find_checkout(repository, branch)) is None:
        return None
    if not folder.is_dir():
        raise GitFailed(f"{branch} is checked out at {folder}, which is missing; run `git worktree prune`")
    ended = await repository.git.run("rev-parse", "--absolute-git-dir", cwd=folder, accept=(0, 128))
    if ended.code != 0:
        raise GitFailed(f"{branch} is checked out at {folder}, which cannot be opened")
    return replace(repository.place, git_dir=Path(ended.out.decode().rstrip("\n")), work_tree=folder, is_of_user=True)


async def _check_clean(repository: GitRepository, checkout: GitPlace, approval: Approval, tree: str) -> None:
    """Raise `MergeConflict` if the checkout has changes, or an operation such as a rebase is unfinished."""
    ended = await repository.git.run(
        "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty",
        place=checkout,
    )  # fmt: skip
    changed = [entry[3:].decode("utf-8", "replace") for entry in ended.out.split(b"\0") if entry]
    if changed:
        raise MergeConflict(
            f"{approval.base} is checked out at {checkout.work_tree} with uncommitted changes; commit or stash them",
            sorted(changed)[:_LISTED],
        )
    for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"):
        if (checkout.git_dir / name).exists():
            raise MergeConflict(f"{checkout.work_tree} has an unfinished merge, rebase or cherry-pick; finish it first")
    await repository.git.run("update-index", "--refresh", place=checkout, accept=(0, 1))
    rehearsal = await repository.git.run(
        "read-tree", "-n", "-m", "-u", approval.base_commit, tree, place=checkout, accept=(0, 128)
    )
    if rehearsal.code:
        reason = rehearsal.err.decode("utf-8", "replace").strip().removeprefix("error: ")
        raise MergeConflict(f"the checkout at {checkout.work_tree} cannot be updated: {reason[:300]}")
    await _check_ignored(repository, checkout, approval, tree)


async def _check_ignored(repository: GitRepository, checkout: GitPlace, approval: Approval, tree: str) -> None:
    """Raise `MergeConflict` if files that git ignores are in the way, which it would overwrite."""
    words = "diff-tree", "-r", "--no-renames", "--name-only", "-z", approval.base_commit, tree
    added, deleted = [
        split_output((await repository.git.run(*words, f"--diff-filter={kind}", place=repository.place)).out)
        for kind in "AD"
    ]
    if paths := await asyncio.to_thread(find_obstacles, checkout.work_tree or repository.path, added, {*deleted}):
        raise MergeConflict(
            f"the checkout at {checkout.work_tree} has files that git ignores in the place of new ones; move them",
            paths[:_LISTED],
        )


async def _update_checkout(repository: GitRepository, checkout: GitPlace, approval: Approval, merged: str) -> None:
    """Update the files of a checkout that has those of the base branch before the merge."""
    if (former := await _find_former(repository, checkout, approval, merged)) is None:
        return
    try:
        await repository.git.run("read-tree", "-m", "-u", former, merged, place=checkout)
    except GitFailed as error:
        raise GitFailed(
            f"{approval.base} was merged as {merged[:12]}, but its checkout at {checkout.work_tree} could not be"
            f" updated ({error}); run `git reset --hard` there"
        ) from error


async def _find_former(repository: GitRepository, checkout: GitPlace, approval: Approval, merged: str) -> str | None:
    """Return the commit whose files are in the index of a checkout; None if the index is no longer behind.

    If a merge is repeated, the expected base may be the result of the first one, whose checkout was not updated.
    """
    indexed = await repository.git.run("write-tree", place=checkout, accept=(0, 128))
    tree = indexed.out.decode().strip()
    for former in (approval.base_commit, f"{merged}^"):
        if former != merged and await repository.resolve(former) and tree == await repository.tree_of(former):
            return former
    return None


def _describe_moved(what: str, name: str, actual: str | None, expected: str) -> str:
    now = f"is at {actual[:12]}" if actual else "does not exist"
    return f"the {what} {name} {now}, not at the expected {expected[:12]}; review the current diff and approve again"
