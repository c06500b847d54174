"""Runs a client's command once, in a folder of its own, with a clean environment and a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

QUIET = {"DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "OTEL_SDK_DISABLED": "true", "CI": "1", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Command:
    """A command, with the variables that are added to its environment."""

    words: tuple[str | Path, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Ran:
    """What a command printed and how it ended; `code` is None if it was killed."""

    code: int | None
    printed: str


def run(command: Command, home: Path, work: Path, seconds: float) -> Ran:
    """Run it to its end, for `seconds` at most; no process of its process group remains."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), **QUIET, **command.env}
    printed = home / "printed"
    with printed.open("wb") as out:  # a process that it leaves would keep a pipe open
        process = subprocess.Popen(
            command.words, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        code: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ran(code, printed.read_text(errors="replace"))
