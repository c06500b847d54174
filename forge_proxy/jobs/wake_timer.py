"""One timer for the earliest time at which a waiting job continues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_MAX_SECONDS = 600.0
"""A timer does not follow a changed system clock, so it is set again after this time at the latest."""


class WakeTimer:
    """Calls `on_due` at the earliest time that it was set to since the last call. Times are in seconds since 1970."""

    def __init__(self, on_due: Callable[[], None], now: Callable[[], float]) -> None:
        self._on_due = on_due
        self._now = now
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: float | None) -> None:
        """Call `on_due` at `at` if it was not to be called before; None changes nothing."""
        if at is None or (self._at is not None and self._at <= at):
            return
        self.close()
        self._at = at
        seconds = min(max(at - self._now(), 0), _MAX_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._fire)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._at = self._timer = None

    def _fire(self) -> None:
        at, self._at = self._at, None
        if at is not None and at > self._now():
            self.set(at)
        else:
            self._on_due()
