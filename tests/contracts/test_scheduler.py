"""The contract of `JobScheduler`: in one process on SQLite and PostgreSQL, and over a real Temporal server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from forge_proxy.core.jobs.actions import Finished, NewJob, NextAction, RunPhase, StartChildren, Wait
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.jobs import retries
from forge_proxy.jobs.cancellation import run_cancellable
from forge_proxy.jobs.writer import JobWriter
from tests.fakes.job_kind import FIRST, SECOND, JobWorld, ScriptedKind, continue_job, local_world
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.postgres import Postgres, postgres
from tests.fakes.temporal_jobs import temporal_world
from tests.fakes.temporal_server import temporal_server


@dataclass(frozen=True)
class Cluster:
    """A database, and a Temporal server if there is one. Each world is a daemon there."""

    url: str
    address: str | None = None
    prefix: str = ""

    def world(
        self, kind: ScriptedKind, queues: Mapping[str, int] | None = None
    ) -> AbstractAsyncContextManager[JobWorld]:
        """Start a daemon."""
        if self.address is None:
            return local_world(self.url, kind, queues)
        return temporal_world(self.url, self.address, kind, queues, self.prefix)


@contextmanager
def open_cluster(request: pytest.FixtureRequest, folder: Path) -> Generator[Cluster]:
    match request.param:
        case "sqlite":
            yield Cluster(f"sqlite+aiosqlite:///{folder}/jobs.db")
        case "postgres":
            database: Postgres = request.getfixturevalue("postgres_server")
            yield Cluster(database.create_database())
        case _:
            with temporal_server() as server, postgres() as own:
                yield Cluster(own.url, server.address)


@pytest.fixture(scope="module", params=["sqlite", "postgres", pytest.param("temporal", marks=pytest.mark.temporal)])
def clusters(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    with open_cluster(request, tmp_path_factory.mktemp("jobs")) as cluster:
        yield cluster


@pytest.fixture
async def cluster(clusters: Cluster) -> AsyncGenerator[Cluster]:
    """The database without jobs, and task queues of its own."""
    yield replace(clusters, prefix=f"test-{time.time_ns():x}-")
    store = await OwnedJobRepository.open(clusters.url)
    for schedule in await store.list_schedules():
        await store.delete_schedule(schedule.name)
    await store.delete_all()
    await store.close()


@pytest.fixture
def job_id() -> str:
    """A new id: Temporal remembers those of earlier tests."""
    return f"job_{time.time_ns():x}"


async def finish(writer: JobWriter) -> NextAction:
    return Finished()


async def await_wake(writer: JobWriter) -> NextAction:
    return Wait(None, SECOND)


async def hang(writer: JobWriter) -> NextAction:
    await run_cancellable(writer.cancel, asyncio.Event().wait())
    return Finished()


async def events_of(world: JobWorld, job_id: str) -> list[str]:
    return [event.type for event in await world.store.events(job_id, after=0, limit=100)]


async def test_d3_a_job_runs_its_phases_waits_and_finishes(cluster: Cluster, job_id: str) -> None:
    async def first(writer: JobWriter) -> NextAction:
        return SECOND

    async def wait(writer: JobWriter) -> NextAction:
        return Wait(time.time() + 0.2, RunPhase("third", "tests"))

    kind = ScriptedKind({"first": first, "second": wait, "third": finish})
    async with cluster.world(kind) as world:
        await world.submit(job_id)

        await world.until(job_id, "completed")

    assert kind.ran == [f"{job_id}/first", f"{job_id}/second", f"{job_id}/third"]
    assert world.reports == []


async def test_d3_a_waiting_job_is_continued_by_a_wake(cluster: Cluster, job_id: str) -> None:
    kind = ScriptedKind({"first": await_wake, "second": finish})
    async with cluster.world(kind) as world:
        await world.submit(job_id)
        await world.until(job_id, "waiting")
        assert kind.ran == [f"{job_id}/first"]

        await world.jobs.wake(job_id)

        await world.until(job_id, "completed")
    assert kind.ran == [f"{job_id}/first", f"{job_id}/second"]


async def test_d3_a_wake_during_a_phase_ends_the_wait_that_the_phase_returns(cluster: Cluster, job_id: str) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def first(writer: JobWriter) -> NextAction:
        started.set()
        await go_on.wait()
        return Wait(None, SECOND)

    async def wait_again(writer: JobWriter) -> NextAction:
        return Wait(None, RunPhase("third", "tests"), "halted")

    kind = ScriptedKind({"first": first, "second": wait_again})
    async with cluster.world(kind) as world:
        await world.submit(job_id)
        await started.wait()
        await world.jobs.wake(job_id)
        go_on.set()

        job = await world.until(job_id, "halted")

    assert kind.ran == [f"{job_id}/first", f"{job_id}/second"]
    assert not job.wake_requested


async def test_d3_a_wake_does_not_end_a_wait_for_a_client(cluster: Cluster, job_id: str) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def first(writer: JobWriter) -> NextAction:
        started.set()
        await go_on.wait()
        return Wait(None, SECOND, "requires_action")

    kind = ScriptedKind({"first": first, "second": finish})
    async with cluster.world(kind) as world:
        await world.submit(job_id)
        await started.wait()
        await world.jobs.wake(job_id)  # it comes too late for an earlier wait
        go_on.set()
        await world.until(job_id, "requires_action")
        await world.jobs.wake(job_id)
    async with cluster.world(kind) as world:
        await world.jobs.resume()
        await continue_job(world.jobs, job_id)
        await world.until(job_id, "completed")
        statuses = [
            event.data for event in await world.store.events(job_id, after=0, limit=99) if event.type == "status"
        ]

    expected = ["queued", "running", "requires_action", "queued", "running", "completed"]
    assert [json.loads(data)["status"] for data in statuses] == expected


async def test_d3_a_wake_during_a_phase_survives_the_process(cluster: Cluster, job_id: str) -> None:
    started = asyncio.Event()

    async def hang_forever(writer: JobWriter) -> NextAction:
        started.set()
        await asyncio.Event().wait()
        return Finished()

    async with cluster.world(ScriptedKind({"first": hang_forever})) as world:
        await world.submit(job_id)
        await started.wait()
        await world.jobs.wake(job_id)
    kind = ScriptedKind({"first": await_wake, "second": finish})
    async with cluster.world(kind) as world:
        await world.until(job_id, "completed")

    assert kind.ran == [f"{job_id}/first", f"{job_id}/second"]


async def test_d3_unfinished_jobs_continue_in_the_next_process(cluster: Cluster, job_id: str) -> None:
    """One runs a phase when its process ends, one waits for a time, and one for a child job."""
    running, timed, parent = f"{job_id}_1", f"{job_id}_2", f"{job_id}_3"
    started = asyncio.Event()

    async def hang_forever(writer: JobWriter) -> NextAction:
        started.set()
        await asyncio.Event().wait()
        return Finished()

    async def wait(writer: JobWriter) -> NextAction:
        return Wait(time.time() + 1.0, SECOND)

    async def start(writer: JobWriter) -> NextAction:
        return StartChildren((NewJob(f"{parent}.1", "test", "t", "{}"),), SECOND)

    before = ScriptedKind({
        f"{running}/first": hang_forever, f"{timed}/first": wait, f"{parent}/first": start,
        f"{parent}.1/first": await_wake,
    })  # fmt: skip
    async with cluster.world(before) as world:
        for name in (timed, parent, running):
            await world.submit(name)
        await started.wait()
        await world.until(timed, "waiting")
        await world.until(parent, "waiting")
        await world.until(f"{parent}.1", "waiting")

    after = ScriptedKind({"first": finish, "second": finish})
    async with cluster.world(after) as world:
        await world.until(running, "completed")
        await world.until(timed, "completed")
        await world.jobs.wake(f"{parent}.1")
        await world.until(parent, "completed")

    assert sorted(after.ran) == sorted([
        f"{running}/first", f"{timed}/second", f"{parent}.1/second", f"{parent}/second",
    ])  # fmt: skip


async def test_d3_a_job_continues_once_its_child_jobs_have_ended(cluster: Cluster, job_id: str) -> None:
    names = [f"{job_id}.{number}" for number in range(12)]

    async def start(writer: JobWriter) -> NextAction:
        return StartChildren(tuple(NewJob(name, "test", "t", "{}") for name in names), SECOND)

    kind = ScriptedKind({"first": finish, f"{job_id}/first": start, "second": finish})
    async with cluster.world(kind) as world:
        await world.submit(job_id)
        await world.until(job_id, "completed")
        children = [await world.store.head(name) for name in names]

    assert {child.status for child in children} == {"completed"}
    assert kind.ran[0] == f"{job_id}/first"
    assert kind.ran[-1] == f"{job_id}/second"
    assert len(kind.ran) == 14


async def test_d3_cancelling_a_job_cancels_the_phases_and_waits_below_it(cluster: Cluster, job_id: str) -> None:
    started = asyncio.Event()
    names = [f"{job_id}.1", f"{job_id}.2"]

    async def start(writer: JobWriter) -> NextAction:
        return StartChildren(tuple(NewJob(name, "test", "t", "{}") for name in names), SECOND)

    async def run(writer: JobWriter) -> NextAction:
        started.set()
        return await hang(writer)

    kind = ScriptedKind({f"{job_id}/first": start, f"{names[0]}/first": run, f"{names[1]}/first": await_wake})
    async with cluster.world(kind) as world:
        await world.submit(job_id)
        await started.wait()
        await world.until(names[1], "waiting")

        job = await world.jobs.cancel(job_id)

        await world.until(job_id, "cancelled")
        assert job.cancel_requested or job.status == "cancelled"
        for name in names:
            assert (await world.store.head(name)).status == "cancelled"
            assert (await events_of(world, name))[-2:] == ["cleaned_up", "status"]
        assert (await world.jobs.cancel(job_id)).status == "cancelled"
    assert f"{job_id}/second" not in kind.ran


@pytest.mark.parametrize("waits", [False, True])
async def test_d3_child_jobs_that_are_created_while_their_parent_is_cancelled_are_cancelled(
    cluster: Cluster, job_id: str, waits: bool
) -> None:
    cancelling: list[asyncio.Task[StoredJob]] = []

    async def start_child(writer: JobWriter) -> NextAction:
        if not waits:
            cancelling.append(asyncio.create_task(world.jobs.cancel(job_id)))
        return StartChildren((NewJob(f"{job_id}.1", "test", "t", "{}"),), SECOND)

    kind = ScriptedKind({"first": start_child, f"{job_id}.1/first": await_wake, "second": finish})
    async with cluster.world(kind) as world:
        await world.submit(job_id)
        if waits:
            await world.until(job_id, "waiting")
            await world.until(f"{job_id}.1", "waiting")
            cancelling.append(asyncio.create_task(world.jobs.cancel(job_id)))
        await world.until(job_id, "cancelled")
        await cancelling[0]

        assert await world.store.list_unfinished() == []
    assert f"{job_id}/second" not in kind.ran


async def test_d3_what_has_ended_or_does_not_exist_is_neither_cancelled_nor_woken(
    cluster: Cluster, job_id: str
) -> None:
    async with cluster.world(ScriptedKind({"first": finish})) as world:
        await world.submit(job_id)
        done = await world.until(job_id, "completed")

        await world.jobs.wake(job_id)
        with pytest.raises(JobConflict):
            await world.jobs.cancel(job_id)
        for operation in (world.jobs.wake, world.jobs.cancel):
            with pytest.raises(JobNotFound):
                await operation("unknown")

        assert await world.store.get(job_id) == done


async def test_d3_a_phase_that_fails_is_run_again_as_often_as_it_may(
    cluster: Cluster, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_ATTEMPT_SECONDS", (0,))
    attempts = 0

    async def first(writer: JobWriter) -> NextAction:
        return RunPhase("second", "tests", max_attempts=3)

    async def fail(writer: JobWriter) -> NextAction:
        nonlocal attempts
        attempts += 1
        raise ValueError("secret")

    async with cluster.world(ScriptedKind({"first": first, "second": fail})) as world:
        await world.submit(job_id)
        failed = await world.until(job_id, "failed")

    assert attempts == 3
    assert "secret" not in str(failed)
    assert [str(error) for _, error in world.reports] == ["secret"] * 3


async def test_d3_a_phase_that_finds_the_store_unavailable_is_run_again(
    cluster: Cluster, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no attempt: this phase has only one."""
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.01)
    attempts = 0

    async def read(writer: JobWriter) -> NextAction:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise StoreUnavailable("simulated")
        return Finished()

    async with cluster.world(ScriptedKind({"first": read})) as world:
        await world.submit(job_id)
        await world.until(job_id, "completed")

    assert attempts == 3


async def test_d3_a_phase_that_takes_too_long_fails(cluster: Cluster, job_id: str) -> None:
    async def first(writer: JobWriter) -> NextAction:
        return RunPhase("second", "tests", timeout=0.2)

    kind = ScriptedKind({"first": first, "second": hang})
    async with cluster.world(kind) as world:
        await world.submit(job_id)
        failed = await world.until(job_id, "failed")

    assert failed.outcome is not None
    assert "second took longer than 0.2 s" in failed.outcome


async def test_d3_a_child_job_with_the_id_of_another_job_fails_its_parent(cluster: Cluster, job_id: str) -> None:
    other = f"{job_id}_other"

    async def start_child(writer: JobWriter) -> NextAction:
        return StartChildren((NewJob(other, "test", "t", "{}"),), SECOND)

    kind = ScriptedKind({"first": start_child, f"{other}/first": finish})
    async with cluster.world(kind) as world:
        await world.submit(other)
        await world.submit(job_id)

        failed = await world.until(job_id, "failed")
    assert failed.outcome is not None
    assert "has the id of another job" in failed.outcome


async def test_d3_a_queue_limits_how_many_phases_run_at_a_time(cluster: Cluster, job_id: str) -> None:
    running, most, both = 0, 0, asyncio.Event()

    async def work(writer: JobWriter) -> NextAction:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            both.set()
        await both.wait()
        await asyncio.sleep(0.05)
        running -= 1
        return Finished()

    names = [f"{job_id}_{number}" for number in range(6)]
    async with cluster.world(ScriptedKind({FIRST.phase: work}), {"tests": 2}) as world:
        for name in names:
            await world.submit(name)
        for name in names:
            await world.until(name, "completed")

    assert most == 2


async def test_d3_a_schedule_creates_jobs_one_at_a_time(cluster: Cluster, job_id: str) -> None:
    """The first job is woken after several intervals, in which no other one is created."""
    kind = ScriptedKind({"first": await_wake, "second": finish})
    async with cluster.world(kind) as world:
        await world.jobs.repeat(job_id, 0.3, "test")
        first = await created_job(world, None)
        await world.until(first, "waiting")
        (schedule,) = await world.store.list_schedules()
        await until_fired(world, schedule.next_at + 0.4)
        assert (await world.store.list_schedules())[0].job_id == first

        await world.jobs.wake(first)
        await world.until(first, "completed")
        second = await created_job(world, first)
        await world.until(second, "waiting")
        await world.jobs.repeat(job_id, None, "test")

        assert await world.store.list_schedules() == []
    assert kind.ran == [f"{first}/first", f"{first}/second", f"{second}/first"]


async def created_job(world: JobWorld, before: str | None) -> str:
    """Return the job that the one schedule has created after another one."""
    async with asyncio.timeout(30):
        while (found := (await world.store.list_schedules())[0].job_id) in (None, before):  # noqa: ASYNC110 - firing sets no event
            await asyncio.sleep(0.01)
    assert found is not None
    return found


async def until_fired(world: JobWorld, at: float) -> None:
    async with asyncio.timeout(30):
        while (await world.store.list_schedules())[0].next_at < at:  # noqa: ASYNC110 - firing sets no event
            await asyncio.sleep(0.01)
