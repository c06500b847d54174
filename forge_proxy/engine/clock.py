"""The clock of the machine."""

from __future__ import annotations

import time


class MonotonicClock:
    """`Clock` by the operating system."""

    def now(self) -> float:
        """See `engine.ports.Clock`."""
        return time.monotonic()
