"""Queues bound how many phases run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.jobs.ports import QueueStatus
from forge_proxy.jobs.queues import JobQueues


class Phases:
    """Phases that hold a slot of the queue `q` until they are ended."""

    def __init__(self, queues: JobQueues) -> None:
        self.queues = queues
        self.running: list[int] = []
        self.ends = [asyncio.Event() for _ in range(9)]
        self.cancels = [asyncio.Event() for _ in range(9)]

    async def run(self, number: int) -> None:
        async with self.queues.slot("q", self.cancels[number]):
            self.running.append(number)
            await self.ends[number].wait()

    @asynccontextmanager
    async def started(self, count: int) -> AsyncGenerator[list[asyncio.Task[None]]]:
        tasks = [asyncio.create_task(self.run(number)) for number in range(count)]
        await settle()
        yield tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_phases_run_in_the_order_in_which_they_came() -> None:
    phases = Phases(JobQueues({"q": lambda: 2}))
    async with phases.started(4):
        assert (phases.running, phases.queues.status()["q"]) == ([0, 1], QueueStatus(2, 2, 2))

        phases.ends[1].set()
        await settle()

        assert (phases.running, phases.queues.status()["q"]) == ([0, 1, 2], QueueStatus(2, 1, 2))
    assert phases.queues.status()["q"] == QueueStatus(0, 0, 2)


async def test_a_queue_without_a_limit_has_four_slots() -> None:
    phases = Phases(JobQueues({}))
    async with phases.started(5):
        assert phases.running == [0, 1, 2, 3]


async def test_a_limit_that_grows_admits_more_when_a_phase_comes() -> None:
    limit = 1
    phases = Phases(JobQueues({"q": lambda: limit}))
    async with phases.started(3):
        limit = 4
        async with phases.queues.slot("q", asyncio.Event()):
            await settle()
            assert phases.running == [0, 1, 2]


async def test_a_cancelled_phase_leaves_the_queue_and_a_cancelled_task_gives_its_slot_back() -> None:
    phases = Phases(JobQueues({"q": lambda: 1}))
    async with phases.started(4) as tasks:
        phases.cancels[1].set()
        await settle()
        with pytest.raises(Cancelled):
            tasks[1].result()
        tasks[0].cancel()
        tasks[2].cancel()  # in the moment in which it gets the slot
        await settle()

        assert phases.running == [0, 3]


async def test_a_slot_that_is_given_back_passes_over_a_phase_that_is_just_being_cancelled() -> None:
    phases = Phases(JobQueues({"q": lambda: 1}))
    async with phases.started(3) as tasks:
        tasks[1].cancel()
        phases.cancels[1].set()
        phases.ends[0].set()
        await settle()

        assert phases.running == [0, 2]
        assert tasks[0].done()
        assert tasks[0].exception() is None
