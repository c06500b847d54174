"""All requests together work for a few milliseconds in a round of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from itertools import pairwise

import pytest

from forge_proxy.engine.pacing import LoopTurns, Pace


class _Work:
    """Steps that take time on a clock of their own, and the round of the event loop in which each was done."""

    def __init__(self, step_seconds: float) -> None:
        self._step_seconds = step_seconds
        self._now = 0.0
        self._round = 0
        self.rounds: list[int] = []
        self.names: list[str] = []
        self.turns = LoopTurns(self)

    def now(self) -> float:
        return self._now

    async def do(self, steps: int, name: str = "") -> None:
        pace = Pace(self.turns, self)
        for _ in range(steps):
            await pace.begin_step()
            self._now += self._step_seconds
            pace.end_step()
            self.rounds.append(self._round)
            self.names.append(name)

    async def reach(self, steps: int) -> None:
        """Wait until this many steps have been done."""
        for _ in range(10 * steps):
            if len(self.names) >= steps:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{len(self.names)} steps were done")

    async def together(self, *work: Coroutine[None, None, None]) -> None:
        async def count_rounds() -> None:
            while True:
                await asyncio.sleep(0)
                self._round += 1

        counting = asyncio.create_task(count_rounds())
        await asyncio.gather(*work)
        counting.cancel()

    def most_at_once(self) -> int:
        """The most steps of one round."""
        return max(Counter(self.rounds).values())


@pytest.mark.parametrize(("requests", "steps"), [(8, 50), (500, 1), (500, 3), (1, 400)])
async def test_in_one_round_of_the_loop_work_is_done_for_four_milliseconds(requests: int, steps: int) -> None:
    work = _Work(0.001)

    await work.together(*(work.do(steps) for _ in range(requests)))

    assert len(work.rounds) == requests * steps
    assert work.most_at_once() <= 8  # the end of a round in which no request waited, and one after it


async def test_a_round_of_the_loop_has_one_long_step() -> None:
    work = _Work(0.02)

    await work.together(*(work.do(20) for _ in range(8)))

    assert work.most_at_once() <= 2
    assert work.rounds[-1] - work.rounds[0] <= 3 * len(work.rounds)  # and no round is for nothing


async def test_quick_steps_share_rounds() -> None:
    work = _Work(0.00001)

    await work.together(*(work.do(100) for _ in range(8)))

    assert work.rounds[-1] - work.rounds[0] <= 50


async def test_a_turn_lasts_for_several_quick_steps() -> None:
    work = _Work(0.0005)

    await work.together(*(work.do(100, name) for name in "abcd"))

    switches = sum(one != other for one, other in pairwise(work.names))
    assert switches <= 400 / 4


async def test_a_small_request_waits_for_few_steps_of_heavy_ones() -> None:
    work = _Work(0.005)

    async def small() -> None:
        await work.reach(200)  # by then the others are heavy
        await work.do(3, "small")

    await work.together(small(), *(work.do(60, "heavy") for _ in range(8)))

    places = [place for place, name in enumerate(work.names) if name == "small"]
    assert places[-1] - places[0] <= 8
    assert places[0] <= 205


async def test_heavy_requests_are_not_starved_by_many_small_ones() -> None:
    work = _Work(0.005)

    async def small() -> None:
        await work.reach(100)
        await work.do(1, "small")

    await work.together(*(work.do(80, "heavy") for _ in range(8)), *(small() for _ in range(300)))

    assert 20 < work.names[110:190].count("heavy") < 60


async def test_a_request_cancelled_while_it_waits_delays_no_other() -> None:
    work = _Work(0.005)

    async def leave() -> None:
        task = asyncio.create_task(work.do(100, "left"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    await work.together(leave(), leave(), work.do(20, "stays"), work.do(20, "stays"))

    assert work.names.count("stays") == 40
