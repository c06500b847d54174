"""Decides if and when a server is restarted after a crash. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_MOST = 3
"""Consecutive crashes after which the server is not restarted automatically."""
_STEADY_SECONDS = 60.0
"""Seconds of operation, without a response, that reset the count."""
_FIRST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class CrashCounter:
    """Counts consecutive crashes without a response in between."""

    in_a_row: int = 0

    def add(self, *, answered: bool, up_seconds: float) -> CrashCounter:
        """Return the count after another crash. `up_seconds` is how long the server was ready; 0 if it never was."""
        return CrashCounter(1 if answered or up_seconds >= _STEADY_SECONDS else self.in_a_row + 1)

    @property
    def is_loop(self) -> bool:
        """Whether the crash limit is reached."""
        return self.in_a_row >= _MOST

    @property
    def pause(self) -> float:
        """Seconds until the restart; doubles with each crash."""
        return _FIRST_PAUSE * 2 ** max(0, self.in_a_row - 1)
