"""The command line that starts a program through the launcher. Imports nothing that starts a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_REAPER = Path(__file__).with_name("reaper.py")


def supervised(command: Sequence[str], lifeline: int | None = None) -> list[str]:
    """The command line of the launcher for a program.

    The launcher kills the program and all its descendants when its lifeline ends. Without a number that is its stdin,
    and it reports the program's pid on stdout. With the number of a descriptor that the launcher inherits, stdin and
    stdout are the program's own.
    """
    end = "stdin" if lifeline is None else str(lifeline)
    return [sys.executable, "-I", "-S", str(_REAPER), str(os.getpid()), end, *command]
