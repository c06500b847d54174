"""The timer of due jobs: it is set to the earliest time, for at most ten minutes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from forge_proxy.jobs.wake_timer import WakeTimer

NOW = 1_000.0


class Timer:
    """A timer on a clock of the test. `delays` are the seconds after which the loop was asked to call it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        self.delays: list[float] = []
        self.cancelled = 0
        self.due = 0
        self._fire: Callable[[], None] = lambda: None
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._call_later)
        self.timer = WakeTimer(self._count, lambda: self.now)

    def fire(self, at: float) -> None:
        """Let the time be `at`, at which the loop calls it."""
        self.now = at
        self._fire()

    def cancel(self) -> None:
        """Count a cancellation, as the handle that the loop returns."""
        self.cancelled += 1

    def _count(self) -> None:
        self.due += 1

    def _call_later(self, seconds: float, fire: Callable[[], None]) -> Timer:
        self.delays.append(seconds)
        self._fire = fire
        return self


@pytest.fixture
async def timer(monkeypatch: pytest.MonkeyPatch) -> Timer:
    return Timer(monkeypatch)


async def test_a_time_in_the_past_is_due_at_once(timer: Timer) -> None:
    timer.timer.set(NOW - 5)

    assert timer.delays == [0]


async def test_an_earlier_time_replaces_a_later_one(timer: Timer) -> None:
    for at in (NOW + 50, NOW + 60, None, NOW + 50, NOW + 20):
        timer.timer.set(at)

    assert (timer.delays, timer.cancelled) == ([50, 20], 1)


async def test_it_is_due_once_and_can_then_be_set_to_any_time(timer: Timer) -> None:
    timer.timer.set(NOW + 20)
    timer.fire(NOW + 20)
    timer.timer.set(NOW + 90)

    assert (timer.due, timer.delays) == (1, [20, 70])


async def test_a_far_time_is_awaited_in_steps(timer: Timer) -> None:
    timer.timer.set(NOW + 1_500)
    timer.fire(NOW + 600)
    timer.fire(NOW + 1_200)

    assert (timer.due, timer.delays) == (0, [600, 600, 300])
    timer.fire(NOW + 1_500)
    assert timer.due == 1


async def test_a_closed_timer_can_be_set_again(timer: Timer) -> None:
    timer.timer.set(NOW + 20)
    timer.timer.close()
    timer.timer.close()
    timer.timer.set(NOW + 30)

    assert (timer.cancelled, timer.delays) == (1, [20, 30])
