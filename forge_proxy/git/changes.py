"""Changes in a worktree: what has changed, its diff, its commit, and how it is undone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from forge_proxy.core.tasks.errors import GitFailed
from forge_proxy.git.folders import Folders, make_removable
from forge_proxy.git.output import split_output
from forge_proxy.git.staging import FILE_MODES, stage_files, update_index
from forge_proxy.git.worktrees import OpenWorktree
from forge_proxy.processes.program import ProgramOutput

_NO_FILTER = ("unspecified", "unset", "set")
"""Values of the attribute `filter` that name none."""


async def reset(worktree: OpenWorktree, commit: str) -> Folders:
    """Undo everything since a commit. Ignored files are kept (D23). Returns the folders that it had before."""
    # What has changed is found faster than git resets and cleans a worktree in which nothing has.
    status, folders = await asyncio.gather(
        _run(worktree, "status", "--porcelain", "-z", "--untracked-files=normal", "--no-renames"),
        asyncio.to_thread(make_removable, worktree.path),
    )
    has_branch = await asyncio.to_thread(worktree.read_head) == f"ref: {worktree.reference}"
    if has_branch and not status.out and folders.is_plain and worktree.read_branch() == commit:
        return folders
    if not has_branch:
        await _run(worktree, "symbolic-ref", "HEAD", worktree.reference)
    await _run(worktree, "reset", "--hard", "--quiet", commit)
    await _run(worktree, "clean", "-f", "-f", "-d", "--quiet")  # the second -f: also nested repositories
    return folders


async def are_files_unchanged(worktree: OpenWorktree) -> bool:
    """Whether the tracked files are those of the index, by their sizes and times. New files do not matter."""
    return not (await _run(worktree, "diff-files", "--quiet", "--no-ext-diff", accept=(0, 1))).code


async def list_files(worktree: OpenWorktree) -> Sequence[str]:
    """Return the tracked files and the new ones that are not ignored, without submodules, sorted."""
    ended = await _run(worktree, "ls-files", "-z", "-t", "--stage", "--deleted", "--others", "--exclude-standard")
    files: set[str] = set()
    deleted: set[str] = set()
    for line in split_output(ended.out):
        tag, entry = line[0], line[2:]
        if tag == "?":
            if not entry.endswith("/"):  # a nested repository
                files.add(entry)
            continue
        mode, path = _read_entry(entry)
        if tag == "R":
            deleted.add(path)
        elif mode in FILE_MODES:
            files.add(path)
    return sorted(files - deleted)


async def list_submodules(worktree: OpenWorktree) -> Sequence[str]:
    """Return the paths of the submodules."""
    tracked = split_output((await _run(worktree, "ls-files", "--stage", "-z")).out)
    return [path for mode, path in (_read_entry(entry) for entry in tracked) if mode == "160000"]


async def list_filters(worktree: OpenWorktree, paths: Sequence[str]) -> Mapping[str, str]:
    """Return the names of git's filters by the paths that they process."""
    names = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    git = worktree.repository.git
    ended = await git.run("check-attr", "-z", "--stdin", "filter", place=worktree.place, stdin=names)
    parts = iter(split_output(ended.out))
    return {path: value for path, _, value in zip(parts, parts, parts, strict=True) if value not in _NO_FILTER}


async def changed_files(worktree: OpenWorktree, since: str | None) -> Sequence[str]:
    """Return the paths that differ from a commit, the head by default; new files count, ignored ones do not."""
    differing, new = await asyncio.gather(
        _run(
            worktree, "diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv", "--no-renames",
            "--ignore-submodules=all", since or worktree.reference,
        ),
        _new_files(worktree),
    )  # fmt: skip
    return sorted({*split_output(differing.out), *new})


async def diff_worktree(worktree: OpenWorktree, max_bytes: int) -> str:
    """Return the unified diff of what is not committed, new files included."""
    staged = await stage_files(worktree, await changed_files(worktree, None))
    return await worktree.repository.diff(worktree.reference, staged.tree, max_bytes)


async def commit_changes(worktree: OpenWorktree, message: str, parent: str, paths: Sequence[str] | None) -> str:
    """Commit changes onto `parent` and return the commit; `paths` are all changed files by default.

    May be repeated: if the head is such a commit already and they have not changed since, it is returned. Raises
    `GitFailed` if the branch is neither at `parent` nor at such a commit, and `UnsafePath`.
    """
    head = await worktree.head()
    chosen = await changed_files(worktree, None) if paths is None else paths
    if head != parent:
        if await _is_commit(worktree, head, parent, message):
            await update_index(worktree, head)
            if not {*chosen} & {*await changed_files(worktree, head)}:
                return head
        raise GitFailed(f"the branch {worktree.record.branch} is at {head[:12]} and not at {parent[:12]} any more")
    staged = await stage_files(worktree, chosen)
    if not staged.paths:
        return parent
    commit = await worktree.repository.text("commit-tree", staged.tree, "-p", parent, "-F", "-", stdin=message.encode())
    await _run(worktree, "update-ref", "-m", "forge-proxy: commit", worktree.reference, commit, parent)
    await staged.adopt(commit)
    return commit


async def _is_commit(worktree: OpenWorktree, commit: str, parent: str, message: str) -> bool:
    """Whether a commit has this parent and message."""
    body = await worktree.repository.text("cat-file", "commit", commit)
    header, _, text = body.partition("\n\n")
    parents = [line.split()[1] for line in header.splitlines() if line.startswith("parent ")]
    return parents == [parent] and text.strip() == message.strip()


async def _new_files(worktree: OpenWorktree) -> Sequence[str]:
    ended = await _run(worktree, "ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in split_output(ended.out) if not path.endswith("/")]  # nested repositories


async def _run(worktree: OpenWorktree, *arguments: str, accept: Sequence[int] = (0,)) -> ProgramOutput:
    return await worktree.repository.git.run(*arguments, place=worktree.place, accept=accept)


def _read_entry(entry: str) -> tuple[str, str]:
    """Return mode and path of a line of `git ls-files --stage`."""
    head, _, path = entry.partition("\t")
    return head.split()[0], path
