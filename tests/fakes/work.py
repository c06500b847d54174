"""Work for a workshop: functions that its processes can import."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn


def spin() -> NoReturn:
    """Never come to an end. Says so on stderr when it begins."""
    sys.stderr.write(json.dumps({"event": "spinning", "pid": os.getpid()}) + "\n")
    while True:
        pass


def fail(told: str) -> NoReturn:
    """Fail, with a message that tells."""
    raise ValueError(told)


def chatter() -> str:
    """Print something where answers go."""
    print("chatter" * 10_000, flush=True)  # noqa: T201  that is what it is for
    return "done"
