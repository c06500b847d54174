"""`/admin/v1/jobs`: jobs of every kind over HTTP."""

from __future__ import annotations

from pathlib import Path

from forge_proxy.api.admin.jobs import JobEndpoints
from forge_proxy.core.jobs.actions import Finished, NewJob, NextAction, StartChildren, Wait
from forge_proxy.jobs.writer import JobWriter
from tests.api.admin.test_runs import FINISH, LOOK, RUNS, post, run, waiting, watched
from tests.api.admin.world import ADMIN, error, world
from tests.fakes.job_kind import SECOND, ScriptedKind, job_world
from tests.fakes.owned_store import OwnedJobRepository

JOBS = f"{ADMIN}/jobs"


async def test_a_run_is_listed_and_shown_as_a_job() -> None:
    async with world(LOOK, FINISH) as client:
        found = await waiting(client, run())
        shown = (await client.get(f"{JOBS}/{found['id']}")).json()
        await post(client, found, {"tool_call_id": 0, "output": "sun"})
        ended = await watched(client, found["id"])
        page = (await client.get(JOBS, params={"kind": "run", "status": "completed"})).json()
        others = (await client.get(JOBS, params={"kind": "other"})).json()
        outcome = (await client.get(f"{JOBS}/{found['id']}")).json()["outcome"]

    assert (shown["kind"], shown["status"], shown["title"]) == ("run", "requires_action", "w")
    assert (shown["phase"], shown["queue"], shown["attempt"], shown["outcome"]) == ("run", "runs", 1, None)
    assert [(job["id"], job["children"], job["parent"]) for job in page["data"]] == [(found["id"], [], None)]
    assert others == {"data": [], "next": None}
    assert outcome == ended["result"]


async def test_the_events_of_a_job_are_those_of_the_run_that_it_is() -> None:
    async with world(FINISH) as client:
        run_id = (await client.post(RUNS, json=run())).json()["id"]
        events = (await client.get(f"{RUNS}/{run_id}/events")).text
        same = (await client.get(f"{JOBS}/{run_id}/events")).text
        rest = (await client.get(f"{JOBS}/{run_id}/events", headers={"Last-Event-ID": "2"})).text
        wrong = await client.get(f"{JOBS}/{run_id}/events", headers={"Last-Event-ID": "two"})

    assert same == events
    assert events.endswith(rest)
    assert "id: 2\n" not in rest
    assert error(wrong) == (400, None, "Last-Event-ID")


async def test_a_job_is_cancelled_once() -> None:
    async with world(LOOK, FINISH) as client:
        found = await waiting(client, run())
        cancelled = (await client.post(f"{JOBS}/{found['id']}/cancel")).json()
        again = (await client.post(f"{JOBS}/{found['id']}/cancel")).json()
        unknown = await client.post(f"{JOBS}/job_1/cancel")
        status = (await client.get(f"{ADMIN}/status")).json()["jobs"]

    assert (cancelled["status"], cancelled["phase"], again) == ("cancelled", None, cancelled)
    assert error(unknown) == (404, "job_not_found", None)
    assert (status["scheduler"], status["unfinished"]) == ("local", {})
    assert status["queues"]["runs"] == {"running": 0, "waiting": 0, "limit": 8}


async def test_the_status_does_not_create_a_store() -> None:
    async with world() as client:
        status = (await client.get(f"{ADMIN}/status")).json()["jobs"]

    assert status["unfinished"] is None


async def test_jobs_are_listed_page_by_page_with_those_below_them(tmp_path: Path) -> None:
    async def first(writer: JobWriter) -> NextAction:
        if writer.job.depth == 2:
            return Wait(None, SECOND, "halted") if writer.job.root == "job_2" else Finished()
        below = tuple(NewJob(f"{writer.job.id}.{number}", "test", "c", "{}") for number in range(2))
        return StartChildren(below, SECOND)

    async def second(writer: JobWriter) -> NextAction:
        return Finished()

    store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
    async with job_world(store, ScriptedKind({"first": first, "second": second})) as jobs:
        endpoints = JobEndpoints(jobs.jobs, 15.0)
        for job_id in ("job_1", "job_2"):
            jobs.now += 1
            await jobs.submit(job_id)
        await jobs.until("job_1", "completed")
        await jobs.until("job_2.0.0", "halted")
        newest = await endpoints.list(limit=1)
        oldest = await endpoints.list(before=newest.next)
        middle = await endpoints.read("job_2.0")
    await store.close()

    assert ([job.id for job in newest.data], newest.next) == (["job_2"], "job_2")
    assert ([job.id for job in oldest.data], oldest.next) == (["job_1"], None)
    (top,) = newest.data
    assert (top.status, [child.id for child in top.children]) == ("waiting", ["job_2.0", "job_2.1"])
    assert [child.id for child in middle.children] == ["job_2.0.0", "job_2.0.1"]
    assert (middle.parent, middle.phase) == ("job_2", "second")
