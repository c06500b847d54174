"""Builds the command line that starts a program under the reaper. Does not import modules that start processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_REAPER = Path(__file__).with_name("reaper.py")


def build_reaper_command(command: Sequence[str], lifeline: int | None = None) -> list[str]:
    """Return the command line that runs a program under the reaper.

    The reaper kills the program and all its descendants when its lifeline closes. If `lifeline` is None, the lifeline
    is the reaper's stdin, and the reaper reports the program's pid on stdout. If it is the number of a descriptor that
    the reaper inherits, stdin and stdout belong to the program.
    """
    end = "stdin" if lifeline is None else str(lifeline)
    return [sys.executable, "-I", "-S", str(_REAPER), str(os.getpid()), end, *command]
