"""Runs checks without a sandbox, with the rights of the daemon: `tasks.sandbox: none`, and ruff, which runs no code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from forge_proxy.checks.commands import MAX_OUTPUT_BYTES, CommandLimits, Workplace, limit_command
from forge_proxy.checks.process_guard import guard_processes
from forge_proxy.core.tasks.errors import CheckUnavailable
from forge_proxy.processes.program import ProgramLimits, ProgramOutput, run_program


class Unsandboxed:
    """Runs commands in the worktree. All their processes are killed at the end, also after kill -9 of the daemon."""

    def __init__(self, limits: CommandLimits) -> None:
        self._limits = limits

    def mount_point(self, workplace: Workplace) -> Path:
        """See `CommandRunner`."""
        return workplace.worktree

    async def run(self, command: Sequence[str], workplace: Workplace, seconds: float) -> ProgramOutput:
        """See `CommandRunner`."""
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(Path.home())}
        try:
            return await run_program(
                limit_command(command, self._limits), ProgramLimits(seconds, MAX_OUTPUT_BYTES),
                env=env, cwd=workplace.worktree, guard=guard_processes(self._limits), under_reaper=True,
            )  # fmt: skip
        except OSError as error:
            raise CheckUnavailable(f"{command[0]} cannot be started: {error.strerror or error}") from error
