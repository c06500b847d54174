"""Changes in a worktree: what has changed, its diff, its commit, and how it is undone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from forge_proxy.core.tasks.errors import GitFailed, UnsafePath
from forge_proxy.git.permissions import make_removable
from forge_proxy.git.program import in_index
from forge_proxy.git.worktrees import OpenWorktree
from forge_proxy.processes.program import ProgramOutput

_FILE_MODES = ("100644", "100755", "000000")
"""Regular files, and no file. Symlinks and nested repositories are never committed."""

_NO_FILTER = ("unspecified", "unset", "set")
"""Values of the attribute `filter` that name none."""


async def reset(worktree: OpenWorktree, commit: str | None) -> None:
    """Undo everything since a commit, the head by default. Ignored files stay (D23)."""
    await asyncio.to_thread(make_removable, worktree.path)
    target = commit or await worktree.head()
    if await asyncio.to_thread(_read_head, worktree) != f"ref: {worktree.reference}":
        await _run(worktree, "symbolic-ref", "HEAD", worktree.reference)
    await _run(worktree, "reset", "--hard", "--quiet", target)
    await _run(worktree, "clean", "-f", "-f", "-d", "--quiet")  # the second -f: also nested repositories


def _read_head(worktree: OpenWorktree) -> str:
    """Return the text of its `HEAD`, which is faster than git reads it."""
    assert worktree.record.git_dir is not None  # noqa: S101  # it is open
    return (worktree.record.git_dir / "HEAD").read_text("utf-8", "surrogateescape").strip()


async def list_files(worktree: OpenWorktree) -> Sequence[str]:
    """Return the tracked files and the new ones that are not ignored, without submodules, sorted."""
    tracked = _split((await _run(worktree, "ls-files", "--stage", "-z")).out)
    files = {path for mode, path in (_read_entry(entry) for entry in tracked) if mode in _FILE_MODES}
    deleted = _split((await _run(worktree, "ls-files", "--deleted", "-z")).out)
    return sorted(files - set(deleted) | set(await _new_files(worktree)))


async def list_submodules(worktree: OpenWorktree) -> Sequence[str]:
    """Return the paths of the submodules."""
    tracked = _split((await _run(worktree, "ls-files", "--stage", "-z")).out)
    return [path for mode, path in (_read_entry(entry) for entry in tracked) if mode == "160000"]


async def list_filters(worktree: OpenWorktree, paths: Sequence[str]) -> Mapping[str, str]:
    """Return the names of git's filters by the paths that they process."""
    names = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    git = worktree.repository.git
    ended = await git.run("check-attr", "-z", "--stdin", "filter", place=worktree.place, stdin=names)
    parts = iter(_split(ended.out))
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
    return sorted({*_split(differing.out), *new})


async def diff_worktree(worktree: OpenWorktree, max_bytes: int) -> str:
    """Return the unified diff of what is not committed, new files included."""
    tree = await _write_tree(worktree, await changed_files(worktree, None))
    return await worktree.repository.diff(worktree.reference, tree, max_bytes)


async def commit_changes(worktree: OpenWorktree, message: str, parent: str, paths: Sequence[str] | None) -> str:
    """Commit changes onto `parent` and return the commit; `paths` are all changed files by default.

    May be repeated: if the head is such a commit already and they have not changed since, it is returned. Raises
    `GitFailed` if the branch is neither at `parent` nor at such a commit, and `UnsafePath`.
    """
    head = await worktree.head()
    chosen = await changed_files(worktree, None) if paths is None else paths
    if head != parent:
        if await _is_commit(worktree, head, parent, message):
            await _update_index(worktree, head)
            if not {*chosen} & {*await changed_files(worktree, head)}:
                return head
        raise GitFailed(f"the branch {worktree.record.branch} is at {head[:12]} and not at {parent[:12]} any more")
    tree = await _write_tree(worktree, chosen)
    if tree == await worktree.repository.tree_of(parent):
        return parent
    commit = await worktree.repository.text("commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode())
    await _run(worktree, "update-ref", "-m", "forge-proxy: commit", worktree.reference, commit, parent)
    await _update_index(worktree, commit)
    return commit


async def _update_index(worktree: OpenWorktree, commit: str) -> None:
    """Make the index that of a commit. Git does not read the unchanged files again."""
    await _run(worktree, "read-tree", "--reset", commit)
    await _run(worktree, "update-index", "--refresh", accept=(0, 1))


async def _write_tree(worktree: OpenWorktree, paths: Sequence[str]) -> str:
    """Store the files as they are now and return the tree: that of the head with these files.

    The index of the worktree does not change, so that a killed daemon leaves nothing staged.
    """
    assert worktree.record.git_dir is not None  # noqa: S101  # it is open
    index = worktree.record.git_dir / "forge-index"
    await asyncio.to_thread(index.unlink, missing_ok=True)
    place = in_index(worktree.place, index)
    git = worktree.repository.git
    await git.run("read-tree", worktree.reference, place=place)
    names = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    await git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", place=place, stdin=names)
    raw = await git.run("diff-index", "--cached", "--raw", "-z", "--no-renames", worktree.reference, place=place)
    entries = iter(_split(raw.out))
    for entry, path in zip(entries, entries, strict=True):
        if entry.split()[1] not in _FILE_MODES:
            raise UnsafePath(path, "it is a symlink or a nested repository, which a task cannot commit")
    return (await git.run("write-tree", place=place)).out.decode().strip()


async def _is_commit(worktree: OpenWorktree, commit: str, parent: str, message: str) -> bool:
    """Whether a commit has this parent and message."""
    body = await worktree.repository.text("cat-file", "commit", commit)
    header, _, text = body.partition("\n\n")
    parents = [line.split()[1] for line in header.splitlines() if line.startswith("parent ")]
    return parents == [parent] and text.strip() == message.strip()


async def _new_files(worktree: OpenWorktree) -> Sequence[str]:
    ended = await _run(worktree, "ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in _split(ended.out) if not path.endswith("/")]  # nested repositories


async def _run(worktree: OpenWorktree, *arguments: str, accept: Sequence[int] = (0,)) -> ProgramOutput:
    return await worktree.repository.git.run(*arguments, place=worktree.place, accept=accept)


def _read_entry(entry: str) -> tuple[str, str]:
    """Return mode and path of a line of `git ls-files --stage`."""
    head, _, path = entry.partition("\t")
    return head.split()[0], path


def _split(output: bytes) -> Sequence[str]:
    return [part.decode("utf-8", "surrogateescape") for part in output.split(b"\0") if part]
