"""The hours in which background requests may run, and the timer that starts requests when time has passed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from forge_proxy.core.background import DailyHours

_MAX_SECONDS = 600.0
"""A timer does not follow a changed system clock, so it fires after this time at the latest."""


def local_minute(moment: float) -> int:
    """Return the minute of the day of a moment (seconds since 1970) in the time zone of the machine."""
    local = time.localtime(moment)
    return local.tm_hour * 60 + local.tm_min


class BackgroundHours:
    """The daily hours in local time; None means the whole day."""

    def __init__(
        self,
        hours: DailyHours | None = None,
        now: Callable[[], float] = time.time,
        minute_of_day: Callable[[float], int] = local_minute,
    ) -> None:
        self._hours = hours
        self._now = now
        self._minute_of_day = minute_of_day
        self._opening = 0.0

    def is_open(self) -> bool:
        """Whether background requests may start now."""
        return self._hours is None or self._hours.contains(self._minute_of_day(self._now()))

    def seconds_until_open(self) -> float:
        """Return the seconds until background requests may start; 0 if they may now."""
        if self._hours is None:
            return 0.0
        now = self._now()
        if self._opening <= now:  # finding it takes about a millisecond
            self._opening = self._hours.next_opening(now, self._minute_of_day)
        return self._opening - now


ALL_HOURS = BackgroundHours()


class DelayedCall:
    """One planned call of `call` at a time."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._timer: asyncio.TimerHandle | None = None

    def plan(self, seconds: float) -> None:
        """Call after that time, instead of what was planned before. After at most 10 minutes: it may be early."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(min(max(seconds, 0.0), _MAX_SECONDS), self._call)

    def cancel(self) -> None:
        """Cancel the planned call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
