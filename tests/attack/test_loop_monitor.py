"""The watched event loop: time in which it serves no timers is counted, time of the machine is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from tests.attack.loop_monitor import Heartbeat, LoopFigures, figures_file

_STRETCH = 0.2


def _work() -> None:
    end = time.thread_time() + _STRETCH
    while time.thread_time() < end:
        pass


def _sleep() -> None:
    time.sleep(_STRETCH)


def _watched(act: Callable[[], None], path: Path) -> LoopFigures:
    """The figures of a loop that ticks, does something, and ticks again."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        Heartbeat(runner.get_loop(), LoopFigures(path))

        async def main() -> None:
            await asyncio.sleep(0.02)
            act()
            await asyncio.sleep(0.02)

        runner.run(main())
    return LoopFigures(path)


def test_work_in_one_stretch_is_counted_as_lag() -> None:
    with figures_file() as path:
        assert _watched(_work, path).cpu >= _STRETCH


def test_a_loop_that_is_kept_waiting_by_the_machine_has_a_gap_and_no_lag() -> None:
    with figures_file() as path:
        figures = _watched(_sleep, path)

        assert figures.gap >= _STRETCH
        assert figures.cpu < _STRETCH / 2


def test_each_attack_begins_with_figures_of_its_own() -> None:
    with figures_file() as path:
        daemon, suite = LoopFigures(path), LoopFigures(path)
        daemon.add(1.0, 2.0)
        daemon.add(0.5, 3.0)
        assert (suite.cpu, suite.gap) == (1.0, 3.0)

        suite.reset()

        assert (daemon.cpu, daemon.gap) == (0.0, 0.0)
