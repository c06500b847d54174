"""Which paths a task may write (D8), and whether two tasks could write the same path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from forge_proxy.core.tasks.paths import find_path_fault, fold_case

PROTECTED = (
    ".git/**",
    "**/.gitattributes",
    "**/.gitmodules",
    ".github/**",
    ".gitlab-ci.yml",
    ".gitlab/**",
    ".circleci/**",
    ".ci/**",
    ".buildkite/**",
    ".drone.yml",
    ".travis.yml",
    ".woodpecker/**",
    ".woodpecker.yml",
    ".forge/**",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "**/*.lock",
    "**/*.lockb",
    "**/*.lockfile",
    "**/package-lock.json",
    "**/npm-shrinkwrap.json",
    "**/pnpm-lock.yaml",
    "**/go.sum",
    "**/go.work.sum",
    "**/packages.lock.json",
    "**/Package.resolved",
)
"""Patterns of paths that no task writes by default: what runs elsewhere after a merge, what controls how git treats
files, and what tools generate.
"""
TEST_FILES = (
    "tests/**",
    "test/**",
    "**/tests/**",
    "**/test_*.py",
    "**/*_test.*",
    "**/*.test.*",
    "**/*.spec.*",
    "**/conftest.py",
)
"""Patterns of test files, for `tests: protected`."""


@dataclass(frozen=True, slots=True)
class WriteScope:
    """Patterns of paths that may be written, and of paths that may not. `**` also matches across folders.

    Case does not matter in `must_not`: on other systems, `.GitHub` is the folder `.github`. In it, `folder/**` is also
    a file with the name of the folder.
    """

    may: tuple[str, ...]
    must_not: tuple[str, ...] = ()
    within: tuple[str, ...] = ("**",)
    """Patterns of a larger scope, which also have to match."""

    def permits(self, path: str) -> bool:
        """Whether the path may be written."""
        is_named = find_path_fault(path) is None and _matches(path, self.may) and _matches(path, self.within)
        if not is_named:
            return False
        folded, must_not = fold_case(path), _fold_all(self.must_not)
        return not (_matches(folded, must_not) or _matches(f"{folded}/", must_not))

    def find_outside(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the paths that may not be written."""
        return tuple(path for path in paths if not self.permits(path))

    @property
    def exact_paths(self) -> tuple[str, ...] | None:
        """The paths that may be written, if they are a list; None if a pattern permits further ones."""
        if any(is_pattern(pattern) for pattern in self.may):
            return None
        return tuple(path for path in dict.fromkeys(self.may) if self.permits(path))

    def overlaps(self, other: WriteScope) -> bool:
        """Whether a path may exist that both permit. Patterns are compared by what precedes their first wildcard."""
        return any(_may_meet(one, two) for one in self.may for two in other.may)


def is_pattern(text: str) -> bool:
    """Whether a text may match several paths."""
    return any(character in text for character in "*?") or text.endswith("/")


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(_compiled(pattern).fullmatch(path) for pattern in patterns)


@lru_cache(maxsize=256)
def _fold_all(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(fold_case, patterns))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern: `*` and `?` within a folder, `**` across folders, `folder/` its files."""
    if pattern.endswith("/"):
        pattern += "**"
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[at], re.escape(pattern[at])))
            at += 1
    return re.compile("".join(parts), re.DOTALL)


def _may_meet(one: str, two: str) -> bool:
    if not is_pattern(one):
        return _matches(one, (two,))
    if not is_pattern(two):
        return _matches(two, (one,))
    first, second = _static_prefix(one), _static_prefix(two)
    return first.startswith(second) or second.startswith(first)


def _static_prefix(pattern: str) -> str:
    return re.split(r"[*?]", pattern, maxsplit=1)[0]
