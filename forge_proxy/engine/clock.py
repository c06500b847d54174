"""The system clock."""

from __future__ import annotations

import time


class MonotonicClock:
    """`Clock` of the operating system."""

    def now(self) -> float:
        """See `engine.ports.Clock`."""
        return time.monotonic()
