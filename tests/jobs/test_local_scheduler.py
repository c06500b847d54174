"""The local scheduler: no wake and no cancellation is lost, whenever it arrives."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.core.jobs.actions import Finished, NextAction, Wait
from forge_proxy.core.jobs.records import IdempotencyClaim, StoredJob
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.jobs import retries
from forge_proxy.jobs.ports import NewRow
from forge_proxy.jobs.writer import JobWriter
from tests.fakes.job_kind import SECOND, ScriptedKind, job_world
from tests.fakes.owned_store import OwnedJobRepository

HOUR = 3600.0


async def finish(writer: JobWriter) -> NextAction:
    return Finished()


async def await_wake(writer: JobWriter) -> NextAction:
    return Wait(None, SECOND)


async def test_a_wake_during_a_phase_ends_the_wait_that_the_phase_returns(store: OwnedJobRepository) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def first(writer: JobWriter) -> NextAction:
        started.set()
        await go_on.wait()
        return Wait(None, SECOND)

    async def second(writer: JobWriter) -> NextAction:
        return Wait(None, SECOND, "halted")

    kind = ScriptedKind({"first": first, "second": second})
    async with job_world(store, kind) as world:
        await world.submit("job_1")
        await started.wait()
        await world.jobs.wake("job_1")
        await world.jobs.wake("job_1")
        go_on.set()

        job = await world.until("job_1", "halted")

    assert kind.ran == ["job_1/first", "job_1/second"]  # and the second wait does not end: the wake is used up
    assert not job.wake_requested


async def test_a_due_job_that_waits_for_its_queue_is_not_polled(store: OwnedJobRepository) -> None:
    """One queue with one slot, which the first job occupies: the store is queried once for due jobs."""
    busy, go_on, asked = asyncio.Event(), asyncio.Event(), 0

    async def first(writer: JobWriter) -> NextAction:
        return Wait(1001.0, SECOND)

    async def block(writer: JobWriter) -> NextAction:
        busy.set()
        await go_on.wait()
        return Finished()

    async def due(now: float) -> list[str]:
        nonlocal asked
        asked += 1
        return [*await OwnedJobRepository.list_due(store, now)]

    store.list_due = due
    kind = ScriptedKind({"first": first, "second": finish, "busy/first": block})
    async with job_world(store, kind, {"tests": 1}) as world:
        await world.submit("job_1")
        await world.until("job_1", "waiting")
        await world.submit("busy")
        await busy.wait()
        world.now = 1002.0
        async with asyncio.timeout(20):
            while world.jobs.status().queues["tests"].waiting == 0:  # noqa: ASYNC110 - the status has no event
                await asyncio.sleep(0.01)
        for _ in range(100):
            await world.store.head("job_1")
        go_on.set()
        await world.until("job_1", "completed")

    assert asked == 1


async def test_a_job_whose_creation_had_an_unknown_outcome_is_started(
    store: OwnedJobRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.0)

    async def create(row: NewRow, claim: IdempotencyClaim | None) -> StoredJob:
        await OwnedJobRepository.create(store, row, claim)
        raise StoreUnavailable("simulated")

    store.create = create
    async with job_world(store, ScriptedKind({"first": finish})) as world:
        with pytest.raises(StoreUnavailable):
            await world.submit("job_1")

        await world.until("job_1", "completed")


def ignore(before: StoredJob, after: StoredJob) -> None:
    pass


async def test_a_state_in_parts_is_read_again_after_it_has_grown_and_shrunk(store: OwnedJobRepository) -> None:
    long = "".join(f"step {number} " for number in range(30_000))
    states = [long[:150_000], long, long[:100_000]]
    read: list[str] = []

    async def write_next(writer: JobWriter) -> NextAction:
        if writer.state in states:
            read.append((await JobWriter.open(await store.get("job_1"), store, ignore, lambda: 0.0)).state)
        if len(read) == len(states):
            return Finished()
        writer.stage(state=states[len(read)])
        return SECOND

    async with job_world(store, ScriptedKind({"first": write_next, "second": write_next})) as world:
        await world.submit("job_1")
        await world.until("job_1", "completed")

    assert read == states
