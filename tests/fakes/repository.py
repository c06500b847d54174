"""Real git repositories for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from forge_proxy.git.allowed import AllowedRepositories
from forge_proxy.git.program import GitProgram
from forge_proxy.git.repositories import GitRepositories

_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}
AUTHOR = ("forge-proxy", "forge-proxy@localhost")


class UserRepository:
    """A repository as its user works with it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Run git as the user, and return its output. Fails if git does."""
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.path, env=_ENV, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str | bytes], message: str = "change") -> str:
        """Write and commit files; return the commit."""
        for path, content in files.items():
            file = self.path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head()

    def head(self, revision: str = "HEAD") -> str:
        return self.git("rev-parse", "--verify", revision)

    def files(self, revision: str = "HEAD") -> dict[str, str]:
        """Return the files of a commit with their content."""
        paths = self.git("ls-tree", "-r", "--name-only", revision).splitlines()
        return {path: self.git("show", f"{revision}:{path}") for path in paths}


def create_repository(path: Path, files: Mapping[str, str | bytes] | None = None) -> UserRepository:
    """Create a repository with the branch `main` and one commit, unless `files` is empty."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    path.mkdir(parents=True)
    repository = UserRepository(path)
    repository.git("init", "-q", "-b", "main")
    chosen = {"a.py": "x = 1\n", "src/b.py": "y = 1\n"} if files is None else files
    if chosen:
        repository.commit(chosen, "first")
    return repository


def repositories_of(state: Path, *paths: Path, lock_seconds: float = 10.0) -> GitRepositories:
    """Return the adapter with these repositories allowed, as a daemon with this state folder has it."""
    git = GitProgram(AUTHOR, lock_seconds=lock_seconds)
    return GitRepositories(git, state / "worktrees", AllowedRepositories(paths, state / "allowed.json"))
