"""Jobs scheduled by a real Temporal server over a real PostgreSQL; a daemon is the jobs of one, in this process."""

from __future__ import annotations

import asyncio
import os
import re
import time
from base64 import b64decode
from collections.abc import Generator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from forge_proxy.core.jobs.actions import Finished, NewJob, NextAction, RunPhase, StartChildren, Wait
from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import NewEvent
from forge_proxy.jobs import schedules
from forge_proxy.jobs.cancellation import run_cancellable
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.temporal.workflow import JobWorkflow, workflow_id
from tests.fakes.job_kind import SECOND, JobWorld, ScriptedKind
from tests.fakes.postgres import Postgres, postgres
from tests.fakes.temporal_jobs import PREFIX, temporal_world
from tests.fakes.temporal_server import TemporalServer, temporal_server

pytestmark = pytest.mark.temporal
HISTORIES = Path(__file__).parent / "histories"


@pytest.fixture(scope="module")
def server() -> Generator[TemporalServer]:
    with temporal_server() as server:
        yield server


@pytest.fixture(scope="module")
def database() -> Generator[Postgres]:
    with postgres() as database:
        yield database


@pytest.fixture
def job_id(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[:60]}_{time.time_ns():x}"


async def finish(writer: JobWriter) -> NextAction:
    return Finished()


async def await_wake(writer: JobWriter) -> NextAction:
    return Wait(None, SECOND)


async def hang(writer: JobWriter) -> NextAction:
    await run_cancellable(writer.cancel, asyncio.Event().wait())
    return Finished()


async def events_of(world: JobWorld, job_id: str) -> list[str]:
    return [event.type for event in await world.store.events(job_id, after=0, limit=100)]


async def test_d3_cancelling_a_job_cancels_the_phase_that_another_daemon_runs_and_the_child_jobs(
    server: TemporalServer, database: Postgres, job_id: str
) -> None:
    started = asyncio.Event()

    async def start(writer: JobWriter) -> NextAction:
        jobs = NewJob(f"{job_id}.1", "test", "t", "{}"), NewJob(f"{job_id}.2", "test", "t", "{}")
        return StartChildren(jobs, SECOND)

    async def run(writer: JobWriter) -> NextAction:
        started.set()
        return await hang(writer)

    kind = ScriptedKind({f"{job_id}/first": start, f"{job_id}.1/first": run, f"{job_id}.2/first": await_wake})
    other = ScriptedKind({})
    async with (
        temporal_world(database.url, server.address, kind) as world,
        temporal_world(database.url, server.address, other, {}) as second,
    ):
        await world.submit(job_id)
        await started.wait()
        await world.until(f"{job_id}.2", "waiting")

        job = await second.jobs.cancel(job_id)

        await world.until(job_id, "cancelled")
        for name in (f"{job_id}.1", f"{job_id}.2"):
            assert (await world.store.head(name)).status == "cancelled"
            assert "cleaned_up" in await events_of(world, name)
        again = await second.jobs.cancel(job_id)
        with pytest.raises(JobNotFound):
            await second.jobs.cancel("unknown")

    assert job.cancel_requested
    assert again.status == "cancelled"
    assert other.ran == []


async def test_d3_the_save_of_a_daemon_that_has_lost_the_job_is_rejected(
    server: TemporalServer, database: Postgres, job_id: str
) -> None:
    """The first daemon blocks its event loop for longer than the heartbeat timeout, as if it was stopped."""
    began, first = asyncio.Event(), RunPhase("first", "tests", heartbeat_timeout=1.5)

    async def block(writer: JobWriter) -> NextAction:
        if began.is_set():  # Temporal may give the second attempt to the same daemon
            return await take_over(writer)
        began.set()
        writer.stage(NewEvent("of_the_first", {}))
        await gate.wait()
        return Finished()

    async def take_over(writer: JobWriter) -> NextAction:
        writer.stage(NewEvent("of_the_second", {}))
        return Finished()

    gate = asyncio.Event()
    slow, fast = ScriptedKind({"first": block}), ScriptedKind({"first": take_over})
    slow.first_action = fast.first_action = lambda job: first
    async with temporal_world(database.url, server.address, slow) as world:
        monkey = pytest.MonkeyPatch()
        monkey.setattr("forge_proxy.temporal.activities._HEARTBEAT_SECONDS", 3600.0)
        await world.submit(job_id)
        await began.wait()
        monkey.undo()
        async with temporal_world(database.url, server.address, fast) as second:
            done = await second.until(job_id, "completed")
            gate.set()
            seen = await events_of(second, job_id)

    assert done.status == "completed"
    assert "of_the_second" in seen
    assert "of_the_first" not in seen


async def test_d3_a_job_submitted_while_temporal_is_down_is_queued_and_runs_later(
    database: Postgres, job_id: str
) -> None:
    kind = ScriptedKind({"first": finish})
    with temporal_server(is_started=False) as server:
        async with temporal_world(database.url, server.address, kind) as world:
            job = await world.submit(job_id)
            status = (await world.store.head(job_id)).status
            server.start()

            await world.until(job_id, "completed")

    assert (job.status, status) == ("queued", "queued")


async def test_d3_the_server_is_killed_and_restarted_on_its_file(database: Postgres, job_id: str) -> None:
    kind = ScriptedKind({"first": await_wake, "second": finish})
    with temporal_server() as server:
        async with temporal_world(database.url, server.address, kind) as world:
            await world.submit(job_id)
            await world.until(job_id, "waiting")
            server.kill()
            await world.jobs.wake(job_id)
            server.start()

            await world.until(job_id, "completed")

    assert kind.ran == [f"{job_id}/first", f"{job_id}/second"]


async def test_d3_jobs_of_a_lost_temporal_database_are_started_again(database: Postgres, job_id: str) -> None:
    kind = ScriptedKind({"first": await_wake, "second": finish})
    with temporal_server() as server:
        async with temporal_world(database.url, server.address, kind) as world:
            await world.submit(job_id)
            await world.until(job_id, "waiting")
    with temporal_server() as server:
        async with temporal_world(database.url, server.address, kind) as world:
            await world.jobs.resume()
            await world.jobs.wake(job_id)

            await world.until(job_id, "completed")


async def test_d3_a_daemon_runs_only_phases_of_the_queues_that_it_serves(
    server: TemporalServer, database: Postgres, job_id: str
) -> None:
    async def go_on(writer: JobWriter) -> NextAction:
        return RunPhase("second", "special")

    general, special = ScriptedKind({"first": go_on}), ScriptedKind({"second": finish})
    async with (
        temporal_world(database.url, server.address, general) as world,
        temporal_world(database.url, server.address, special, {"special": 1}),
    ):
        await world.submit(job_id)
        await world.until(job_id, "completed")

    assert (general.ran, special.ran) == ([f"{job_id}/first"], [f"{job_id}/second"])


async def test_d3_d39_histories_have_no_large_payload_and_are_replayed(
    server: TemporalServer, database: Postgres, job_id: str
) -> None:
    """With FORGE_RECORD_HISTORIES, the histories are stored for `test_replay.py`."""

    async def start(writer: JobWriter) -> NextAction:
        return StartChildren(tuple(NewJob(f"{job_id}.{n}", "test", "t", "{}") for n in range(3)), SECOND)

    async def wait(writer: JobWriter) -> NextAction:
        return Wait(time.time() + 0.1, RunPhase("third", "tests", timeout=60.0))

    kind = ScriptedKind(
        {f"{job_id}/first": start, "second": wait, "third": await_wake, "first": finish, f"{job_id}.2/first": hang}
    )
    kind.phases = {**kind.phases, f"{job_id}/third": finish}
    async with temporal_world(database.url, server.address, kind) as world:
        await world.submit(job_id)
        await world.until(job_id, "waiting")
        await world.until(f"{job_id}.2", "running")
        await world.jobs.cancel(f"{job_id}.2")
        await world.until(job_id, "completed")
        client = await Client.connect(server.address)
        ids = [workflow_id(PREFIX, name) for name in (job_id, f"{job_id}.2")]
        histories = [await client.get_workflow_handle(name).fetch_history() for name in ids]

    replayer = Replayer(workflows=[JobWorkflow], workflow_runner=UnsandboxedWorkflowRunner())
    for number, history in enumerate(histories):
        await replayer.replay_workflow(history)
        payloads = [b64decode(data) for data in re.findall(r'"data":\s*"([^"]*)"', history.to_json())]
        assert payloads
        assert max(map(len, payloads)) < 4096
        if os.environ.get("FORGE_RECORD_HISTORIES"):
            name = ("children_wait", "cancelled")[number]
            (HISTORIES / f"{name}.json").write_text(history.to_json())


async def test_d3_a_schedule_fires_on_the_daemons_that_are_left(
    server: TemporalServer, database: Postgres, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon that has set it ends; the other one was there before it was set."""
    monkeypatch.setattr(schedules, "_SHARED_CHECK_SECONDS", 0.2)
    kind = ScriptedKind({"first": finish})
    async with temporal_world(database.url, server.address, kind) as world:
        async with temporal_world(database.url, server.address, ScriptedKind({}), {}) as other:
            await other.jobs.repeat(job_id, 0.5, "test")
        async with asyncio.timeout(30):
            while (created := (await world.store.list_schedules())[0].job_id) is None:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        await world.until(created, "completed")
        await world.jobs.repeat(job_id, None, "test")

    assert f"{created}/first" in kind.ran
