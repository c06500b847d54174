"""Work for a process pool: functions that its processes can import."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn


def spin() -> NoReturn:
    """Run forever; report the start on stderr."""
    sys.stderr.write(json.dumps({"event": "spinning", "pid": os.getpid()}) + "\n")
    while True:
        pass


def fail(message: str) -> NoReturn:
    """Raise an error with this message."""
    raise ValueError(message)


def chatter() -> str:
    """Print something to the pipe of the results."""
    print("chatter" * 10_000, flush=True)  # noqa: T201  that is what it is for
    return "done"
