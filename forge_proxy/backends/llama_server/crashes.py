"""When a server that died is started again, and when no more. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_MOST = 3
"""Crashes in a row after which it is not started again by itself."""
_STEADY_SECONDS = 60.0
"""How long a server without a request has to run for its next crash to be a first one."""
_FIRST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class CrashCounter:
    """The crashes in a row, with no answer given in between."""

    in_a_row: int = 0

    def one_more(self, *, answered: bool, up_seconds: float) -> CrashCounter:
        """After another one, of a server that had answered, and was ready for so long; 0 where it never was."""
        return CrashCounter(1 if answered or up_seconds >= _STEADY_SECONDS else self.in_a_row + 1)

    @property
    def is_loop(self) -> bool:
        """Whether starting it again is not going to help."""
        return self.in_a_row >= _MOST

    @property
    def pause(self) -> float:
        """Seconds before it is started again."""
        return _FIRST_PAUSE * 2 ** max(0, self.in_a_row - 1)
