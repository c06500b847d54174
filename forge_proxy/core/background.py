"""When a background request may start. Pure; `core/queueing.py` applies it.

A request is interactive (a person or an agent waits for the response) or background (a batch, a job). Interactive ones
come first. A running request is never stopped for another, so some slots stay free while interactive clients are
active: otherwise each of their requests would first wait for the end of a background request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.errors import InvalidRequest

Priority: TypeAlias = Literal["interactive", "background"]
"""Who waits for the response to a request: a client now, or nobody in particular."""
Obstacle: TypeAlias = Literal["paused", "hours", "interactive_requests", "slots", "reserved_slots", "model"]
"""Why background requests wait: admission is paused, the hours do not permit them, interactive requests wait, all slots
are used, the free ones are reserved, or another model is loaded.
"""
MINUTES_PER_DAY = 24 * 60


def read_priority(header: str | None, service_tier: object = None) -> Priority:
    """Return the priority of a request with this header `x-forge-priority` and this field `service_tier`.

    The header comes first; without it `flex`, OpenAI's tier for work that may take longer, means background. Raises
    `InvalidRequest`.
    """
    match header.strip().lower() if header is not None else None:
        case None:
            return "background" if service_tier == "flex" else "interactive"
        case "interactive":
            return "interactive"
        case "background":
            return "background"
        case _:
            raise InvalidRequest("header x-forge-priority", f"expected interactive or background, found {header!r}")


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What the policy depends on. Times are seconds of one clock."""

    slots: int | None
    running: int
    """Running requests of both priorities."""
    interactive_running: int
    interactive_waiting: int
    interactive_at: float
    """When an interactive request last arrived or ended."""
    is_open: bool
    """Whether the hours permit background requests."""


@dataclass(frozen=True, slots=True)
class BackgroundPolicy:
    """The settings for background requests."""

    reserved_slots: int | None = None
    """Slots that stay free while an interactive client is active. None: 1 if there are two or more slots."""
    idle_seconds: float = 5.0
    """Seconds after its latest request for which an interactive client counts as active."""
    turn_seconds: float = 300.0
    """Seconds after which background requests for another model have their turn, even if more wait for the current one:
    long compared with the loading of a model, but no batch delays another for its whole length.
    """

    def reserve(self, slots: int) -> int:
        """Return the number of reserved slots, of `slots` in all."""
        return int(slots >= 2) if self.reserved_slots is None else self.reserved_slots

    def is_active(self, load: QueueLoad, now: float) -> bool:
        """Whether an interactive client is active."""
        return bool(load.interactive_running or load.interactive_waiting or now < self.idle_at(load))

    def idle_at(self, load: QueueLoad) -> float:
        """When the interactive clients will be idle, if all their requests have ended and no further one arrives."""
        return load.interactive_at + self.idle_seconds

    def find_obstacle(self, load: QueueLoad, now: float) -> Obstacle | None:
        """Return why no background request may start now; None if one may."""
        if not load.is_open:
            return "hours"
        if load.interactive_waiting:
            return "interactive_requests"
        if load.slots is None:
            return None
        free = load.slots - load.running
        if free <= 0:
            return "slots"
        if free <= self.reserve(load.slots) and self.is_active(load, now):
            return "reserved_slots"
        return None


@dataclass(frozen=True, slots=True)
class DailyHours:
    """A time of the day, which may span midnight. Both ends are minutes since midnight; the end is excluded."""

    start: int
    end: int

    @classmethod
    def parse(cls, text: str) -> DailyHours:
        """Parse `22:00-07:00`. Raises `ValueError`."""
        try:
            start, end = map(_parse_minute, text.split("-"))
        except ValueError:
            raise ValueError("expected HH:MM-HH:MM, such as 22:00-07:00") from None
        if start == end:
            raise ValueError("it begins and ends at the same time; omit it to permit all hours")
        return cls(start, end)

    def contains(self, minute: int) -> bool:
        """Whether this minute of the day is inside."""
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def next_opening(self, now: float, minute_of_day: Callable[[float], int]) -> float:
        """Return the first moment from `now` on that is inside, in seconds since 1970.

        `minute_of_day` returns the local time of a moment. Each minute is tried, because the local time may be set
        forward or back in between: an hour may be missing or come twice.
        """
        if self.contains(minute_of_day(now)):
            return now
        minute = now - now % 60
        for _ in range(2 * MINUTES_PER_DAY):  # a day in which all of it is missing is followed by one with it
            minute += 60
            if self.contains(minute_of_day(minute)):
                return minute
        return minute  # not reached with the clock of any place: checked again then


def _parse_minute(text: str) -> int:
    hours, minutes = text.strip().split(":")
    if not (hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2) or int(hours) > 23 or int(minutes) > 59:
        raise ValueError(text)
    return int(hours) * 60 + int(minutes)
