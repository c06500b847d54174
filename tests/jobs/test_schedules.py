"""Schedules create jobs at their times: once for times that were missed, and not while the last job runs."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.core.jobs.actions import Finished, NextAction, Wait
from forge_proxy.core.jobs.errors import JobNotReadable
from forge_proxy.jobs.writer import JobWriter
from tests.fakes.job_kind import SECOND, JobWorld, ScriptedKind, job_world
from tests.fakes.owned_store import OwnedJobRepository


async def finish(writer: JobWriter) -> NextAction:
    return Finished()


async def wait(writer: JobWriter) -> NextAction:
    return Wait(None, SECOND)


async def fire(world: JobWorld, now: float) -> None:
    """Let the time of a schedule come, and wait until it has fired."""
    (before,) = await world.store.list_schedules()
    world.now = now
    world.jobs._schedules.check()  # pyright: ignore[reportPrivateUsage] - the timer follows the clock of the loop
    async with asyncio.timeout(20):
        while (await world.store.list_schedules())[0].next_at == before.next_at:  # noqa: ASYNC110 - firing sets no event
            await asyncio.sleep(0.001)


async def test_d3_a_schedule_creates_a_job_after_each_interval(store: OwnedJobRepository) -> None:
    kind = ScriptedKind({"first": finish})
    async with job_world(store, kind) as world:
        await world.jobs.repeat("nightly", 60.0, "test")
        assert [schedule.next_at for schedule in await store.list_schedules()] == [1060.0]

        for now in (1060.0, 1121.0):
            await fire(world, now)
            (schedule,) = await store.list_schedules()
            assert schedule.job_id is not None
            job = await world.until(schedule.job_id, "completed")
            assert job.title == "nightly"

        assert schedule.next_at == 1180.0
    assert len(kind.ran) == 2


async def test_d3_missed_times_fire_once_after_a_restart(store: OwnedJobRepository) -> None:
    async with job_world(store, ScriptedKind({})) as world:
        await world.jobs.repeat("nightly", 60.0, "test")
    kind = ScriptedKind({"first": finish})
    async with job_world(store, kind) as world:
        world.now = 5000.0
        await world.jobs.resume()
        async with asyncio.timeout(20):
            while not (found := await store.list_schedules())[0].job_id:  # noqa: ASYNC110 - firing sets no event
                await asyncio.sleep(0.001)
        await world.jobs.repeat("nightly", 60.0, "test")  # as at each start: it changes nothing
        await world.until(str(found[0].job_id), "completed")

    assert found[0].next_at == 5020.0
    assert await store.list_schedules() == found
    assert len(kind.ran) == 1


async def test_d3_a_schedule_does_not_fire_while_its_last_job_runs(store: OwnedJobRepository) -> None:
    kind = ScriptedKind({"first": wait, "second": finish})
    async with job_world(store, kind) as world:
        await world.jobs.repeat("nightly", 60.0, "test")
        await fire(world, 1060.0)
        first = str((await store.list_schedules())[0].job_id)
        await world.until(first, "waiting")

        await fire(world, 1120.0)
        assert (await store.list_schedules())[0].job_id == first
        await world.jobs.wake(first)
        await world.until(first, "completed")
        await fire(world, 1180.0)

        assert (await store.list_schedules())[0].job_id != first


async def test_d3_a_schedule_ends_and_changes(store: OwnedJobRepository) -> None:
    async with job_world(store, ScriptedKind({})) as world:
        await world.jobs.repeat("nightly", 60.0, "test")
        await world.jobs.repeat("nightly", 10.0, "test")
        assert [(one.interval, one.next_at) for one in await store.list_schedules()] == [(10.0, 1010.0)]
        with pytest.raises(JobNotReadable):
            await world.jobs.repeat("other", 10.0, "unknown")

        await world.jobs.repeat("nightly", None, "test")

        assert await store.list_schedules() == []
