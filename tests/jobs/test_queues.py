"""Queues limit how many phases run at a time, and report them; and the settings of background work."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from forge_proxy.core.background import DailyHours
from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.jobs.config import JobsConfig
from forge_proxy.jobs.ports import QueueStatus
from forge_proxy.jobs.queues import JobQueues


async def test_a_queue_reports_what_runs_and_waits() -> None:
    queues, ends, cancel = JobQueues({"one": lambda: 1, "unused": lambda: 3}), asyncio.Event(), asyncio.Event()

    async def run(cancel: asyncio.Event) -> None:
        async with queues.slot("one", cancel):
            await ends.wait()

    first = asyncio.create_task(run(asyncio.Event()))
    second = asyncio.create_task(run(cancel))
    third = asyncio.create_task(run(asyncio.Event()))
    async with asyncio.timeout(20):
        while queues.status()["one"].running == 0:  # noqa: ASYNC110  nothing reports that a slot was taken
            await asyncio.sleep(0)

    assert queues.status() == {"one": QueueStatus(1, 2, 1), "unused": QueueStatus(0, 0, 3)}
    cancel.set()
    with pytest.raises(Cancelled):
        await second
    assert queues.status()["one"] == QueueStatus(1, 1, 1)
    ends.set()
    await asyncio.gather(first, third)
    assert queues.status()["one"] == QueueStatus(0, 0, 1)


def test_hours_are_parsed_and_wrong_ones_are_an_error() -> None:
    assert JobsConfig().daily_hours is None
    assert JobsConfig(hours="22:00-07:00").daily_hours == DailyHours.parse("22:00-07:00")
    with pytest.raises(ValidationError, match="expected HH:MM-HH:MM"):
        JobsConfig(hours="10 pm")
