"""A repository of the user: where it is, and which branches, commits and files it has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forge_proxy.core.tasks.errors import GitFailed, RepositoryUnusable
from forge_proxy.git.program import GitPlace, GitProgram

_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class GitRepository:
    """An opened repository."""

    git: GitProgram
    path: Path
    """The top folder of its main checkout; of a bare repository, its own folder."""
    place: GitPlace
    """Its git folder, which all worktrees share, without a work tree."""
    is_bare: bool
    is_sparse: bool = False
    """Whether checkouts may lack files of their commit, so that an index may say of a file that git ignores it."""
    is_partial: bool = False
    """Whether it is a partial clone, in which objects may be missing until git fetches them."""

    async def resolve(self, revision: str) -> str | None:
        """Return the commit of a branch or another name; None if there is none."""
        ended = await self.git.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
            place=self.place, accept=(0, 1, 128),
        )  # fmt: skip
        return ended.out.decode().strip() if ended.code == 0 else None

    async def branch_head(self, branch: str) -> str | None:
        """Return the commit of a branch; None if there is none."""
        return await self.resolve(f"refs/heads/{branch}")

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit, which is the digest of its files."""
        return await self.text("rev-parse", "--verify", f"{commit}^{{tree}}")

    async def text(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command and return its output, without white space around it."""
        ended = await self.git.run(*arguments, place=self.place, stdin=stdin)
        return ended.out.decode("utf-8", "replace").strip()

    async def read_committed(self, commit: str, path: str, max_bytes: int = 1_000_000) -> bytes | None:
        """Return a file as it is in a commit; None if there is none, and if it is a symlink or too large."""
        listed = await self.git.run("ls-tree", "-l", "-z", "--full-tree", commit, "--", path, place=self.place)
        entry = listed.out.split(b"\0")[0].partition(b"\t")[0].split()
        if len(entry) != 4 or entry[0] not in (b"100644", b"100755") or int(entry[3]) > max_bytes:
            return None
        return (await self.git.run("cat-file", "blob", entry[2].decode(), place=self.place)).out

    async def diff(self, base: str, head: str, max_bytes: int) -> str:
        """Return the unified diff between two commits, branches or trees."""
        ended = await self.git.run(
            *DIFF, "--end-of-options", base, head, place=self.place, max_bytes=max_bytes
        )  # fmt: skip
        return ended.out.decode("utf-8", "replace")


DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--find-renames")
"""The words of a diff that runs no program of the repository."""


async def open_repository(git: GitProgram, path: Path) -> GitRepository:
    """Open the repository whose top folder is `path`. Raises `RepositoryUnusable` and `GitFailed`."""
    top = await asyncio.to_thread(find_folder, path)
    if top is None:
        raise RepositoryUnusable(f"{path}: there is no such folder; if the repository was moved, move it back")
    ended = await git.run(
        "rev-parse", "--path-format=absolute", "--is-bare-repository", "--git-common-dir", "--git-dir",
        cwd=top, accept=(0, 128),
    )  # fmt: skip
    lines = ended.out.decode("utf-8", "surrogateescape").splitlines()
    if ended.code != 0 or len(lines) != 3:
        raise RepositoryUnusable(_explain(top, ended.err.decode("utf-8", "replace")))
    is_bare, git_dir = lines[0] == "true", Path(lines[1])
    if lines[1] != lines[2]:
        raise RepositoryUnusable(f"{top} is a linked worktree; name the main checkout of {git_dir}")
    main = git_dir
    if not is_bare:
        main = Path((await git.run("rev-parse", "--show-toplevel", cwd=top)).out.decode().rstrip("\n"))
    if main != top:
        raise RepositoryUnusable(f"{top} is a folder inside the repository {main}; name its top folder")
    keys = await _read_settings(git, git_dir)
    filters = tuple(sorted(key for key in keys if key.startswith("filter.")))
    is_partial = any(key.endswith(".promisor") for key in keys)
    place = GitPlace(git_dir, filters=filters)
    return GitRepository(git, main, place, is_bare, "core.sparsecheckout" in keys, is_partial)


def find_folder(path: Path) -> Path | None:
    """Return the path of a folder without symlinks; None if there is no such folder."""
    return path.expanduser().resolve() if path.is_dir() else None


def _explain(path: Path, message: str) -> str:
    if "dubious ownership" in message:
        return f"{path} belongs to another user; run the daemon as the owner of the repository"
    if "not a git repository" in message:
        return f"{path} is not a git repository; create one with `git init` and commit the files"
    return f"{path} cannot be opened: {message.strip().removeprefix('fatal: ')[:300]}"


async def _read_settings(git: GitProgram, git_dir: Path) -> frozenset[str]:
    """Return the keys of the settings of filters, sparse checkouts and partial clones."""
    pattern = r"^(filter\..*\.(clean|smudge|process|required)|core\.sparsecheckout|remote\..*\.promisor)$"
    ended = await git.run(
        "config", "--null", "--name-only", "--get-regexp", pattern,
        place=GitPlace(git_dir, is_of_user=True), accept=(0, 1),
    )  # fmt: skip
    return frozenset(key.decode() for key in ended.out.split(b"\0") if key)


def read_loose_reference(git_dir: Path, reference: str) -> str | None:
    """Return the commit of a branch from its own file, which is faster than git; None if git has it elsewhere."""
    try:
        text = (git_dir / reference).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):  # it is packed, or there is none
        return None
    return text if _COMMIT.fullmatch(text) else None


async def list_branches(repository: GitRepository, limit: int = 10) -> Sequence[str]:
    """Return the names of the branches that were changed last."""
    text = await repository.text(
        "for-each-ref", f"--count={limit}", "--sort=-committerdate", "--format=%(refname:lstrip=2)", "refs/heads"
    )
    return text.splitlines()


async def find_checkout(repository: GitRepository, branch: str) -> Path | None:
    """Return the folder in which a branch is checked out; None if there is none. A bare repository has no checkout."""
    listed = (await repository.git.run("worktree", "list", "--porcelain", "-z", place=repository.place)).out
    for number, entry in enumerate(listed.decode("utf-8", "surrogateescape").split("\0\0")):
        lines = entry.split("\0")
        if f"branch refs/heads/{branch}" in lines and "bare" not in lines:
            # The first one is the main checkout. Git lists its git folder instead if that is in another place.
            return Path(lines[0].removeprefix("worktree ")) if number else repository.path
    return None


async def check_commit(repository: GitRepository, commit: str) -> str:
    """Return the full id of a commit. Raises `GitFailed` if the repository does not have it."""
    if (found := await repository.resolve(commit)) is None:
        raise GitFailed(f"{repository.path}: there is no commit {commit}")
    return found
