"""Runs the command of a check: what it sees, its limits, and its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from forge_proxy.processes.program import ProgramOutput

MAX_OUTPUT_BYTES = 256_000
"""Bytes of each output that are kept."""
_MAX_FILE_BLOCKS = 2 * 1024 * 1024
"""A file that a check writes has at most this many blocks of 512 bytes: 1 GiB."""


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """Limits of the commands of checks; each command has its own limit on time."""

    memory_mb: int = 4096
    """For each process, and for all processes of a command together."""
    processes: int = 512


@dataclass(frozen=True, slots=True)
class Workplace:
    """The files that a command works on."""

    worktree: Path
    repository: Path
    """The repository of the worktree."""
    readable: tuple[Path, ...] = ()
    """Further files and folders that the command reads."""


class CommandRunner(Protocol):
    """Runs commands, in a sandbox (`bubblewrap.py`) or without one (`unsandboxed.py`)."""

    def mount_point(self, workplace: Workplace) -> Path:
        """Return the path of the worktree as the command sees it."""
        ...

    async def run(self, command: Sequence[str], workplace: Workplace, seconds: float) -> ProgramOutput:
        """Run a command. Raises `CheckUnavailable` if it cannot be started."""
        ...


def limit_command(command: Sequence[str], limits: CommandLimits) -> Sequence[str]:
    """Return a command line that sets the limits of the kernel and executes the command.

    RLIMIT_DATA instead of RLIMIT_AS: V8 and Go reserve far more addresses than they use.
    """
    script = f'ulimit -c 0; ulimit -f {_MAX_FILE_BLOCKS}; ulimit -d {limits.memory_mb * 1024}; exec "$@"'
    return ["/bin/sh", "-c", script, "check", *command]
