"""Ruff: the program and the settings for a repository. Neither is looked up by ruff itself (D22)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruff import find_ruff_bin  # pyright: ignore[reportMissingTypeStubs]

from forge_proxy.processes.program import ProgramLimits, run_program

_SUFFIXES = (".py", ".pyi")
CONFIGURED = ("tool-config/ruff.toml", "ruff.toml", ".ruff.toml", "pyproject.toml")
"""Where a repository may have settings of ruff, in the order in which they are looked for."""
DEFAULT_SETTINGS = Path(__file__).with_name("default_ruff.toml")
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ruff:
    """How ruff is run for one repository."""

    program: Path
    settings: str
    """A path relative to the worktree, or the absolute path of the daemon's settings."""

    def lint(self, files: Sequence[str]) -> Sequence[str]:
        """Return the command that lints files."""
        return [*self._build_command("check"), "--output-format", "json", "--no-fix", *_build_file_arguments(files)]

    def check_format(self, files: Sequence[str]) -> Sequence[str]:
        """Return the command that reports files that are not formatted."""
        return [*self._build_command("format"), "--check", *_build_file_arguments(files)]

    def fix(self, files: Sequence[str]) -> Sequence[str]:
        """Return the command that applies safe fixes to files."""
        return [*self._build_command("check"), "--fix", "--exit-zero", "--quiet", *_build_file_arguments(files)]

    def format(self, files: Sequence[str]) -> Sequence[str]:
        """Return the command that formats files."""
        return [*self._build_command("format"), "--quiet", *_build_file_arguments(files)]

    def _build_command(self, command: str) -> Sequence[str]:
        return [str(self.program), command, "--config", self.settings, "--no-cache", "--force-exclude"]


async def is_formatted(ruff: Ruff, worktree: Path, path: str, content: bytes) -> bool:
    """Whether a file with this content needs no formatting. Ruff runs outside of a sandbox: it executes no code."""
    command = [*ruff.check_format(())[:-1], "--stdin-filename", path, "-"]
    ended = await run_program(command, ProgramLimits(SECONDS, 10_000), env={}, cwd=worktree, stdin=content)
    return ended.code == 0


def choose_ruff(repository: Path, committed: Mapping[str, bytes]) -> Ruff:
    """Return the ruff of a repository's virtual environment, else the daemon's, with the settings of the
    repository, else the daemon's.

    `committed` has the content of those files of `CONFIGURED` that the base branch has.
    """
    own = repository / ".venv" / "bin" / "ruff"
    program = own if own.is_file() else Path(find_ruff_bin())
    settings = next((path for path in CONFIGURED if path in committed and _has_settings(path, committed[path])), None)
    return Ruff(program, settings or str(DEFAULT_SETTINGS))


def python_files(files: Sequence[str]) -> Sequence[str]:
    """Return the Python files among the paths."""
    return [path for path in files if path.endswith(_SUFFIXES)]


def _has_settings(path: str, content: bytes) -> bool:
    if path != "pyproject.toml":
        return True
    try:
        return "ruff" in tomllib.loads(content.decode()).get("tool", {})
    except ValueError:
        return False


def _build_file_arguments(files: Sequence[str]) -> Sequence[str]:
    """Return the arguments that name files, also of those that begin with a hyphen."""
    return ["--", *files]
