"""Jobs are deleted some days after they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.jobs.ports import NewRow
from forge_proxy.jobs.retention import DAY, JobRetention
from tests.contracts.test_store import child, event, job
from tests.fakes.job_kind import ScriptedKind, job_world
from tests.fakes.owned_store import OwnedJobRepository


async def add(store: OwnedJobRepository, *jobs: StoredJob) -> None:
    for one in jobs:
        await store.create(NewRow(one, [event(1)]), None)


async def test_a_tree_is_deleted_from_its_leaves_once_its_root_has_expired(store: OwnedJobRepository) -> None:
    old, recent = 10 * DAY, 40 * DAY
    await add(store, job("job_1", status="completed", updated_at=old))
    await add(store, child("job_1.1", status="failed", updated_at=old))
    await add(store, replace(child("job_1.1.1", "job_1.1", status="completed", updated_at=old), depth=2))
    await add(store, job("job_2", status="completed", updated_at=recent), job("job_3", status="waiting"))
    deleted: list[str] = []

    await JobRetention(30, lambda: 45 * DAY, deleted.append).delete_expired(store)

    assert deleted == ["job_1.1.1", "job_1.1", "job_1"]
    assert (await store.get("job_2")).status == "completed"
    assert (await store.get("job_3")).status == "waiting"


async def test_more_jobs_than_one_search_finds_are_deleted(store: OwnedJobRepository) -> None:
    for number in range(250):
        await add(store, job(f"job_{number}", status="cancelled"))

    await JobRetention(1, lambda: 9 * DAY, lambda _: None).delete_expired(store)

    assert await store.list_expired(9 * DAY, 1) == []


async def test_a_job_that_a_client_deletes_at_the_same_time_is_no_error(store: OwnedJobRepository) -> None:
    await add(store, job("job_1", status="completed"), job("job_2", status="completed"))
    gone: Sequence[str] = ["gone"]

    async def expired(before: float, limit: int) -> Sequence[str]:
        nonlocal gone
        first, gone = gone, ()
        return [*first, *await OwnedJobRepository.list_expired(store, before, limit)]

    store.list_expired = expired

    await JobRetention(1, lambda: 9 * DAY, lambda _: None).delete_expired(store)

    for job_id in ("job_1", "job_2"):
        with pytest.raises(JobNotFound):
            await store.get(job_id)


async def test_expired_jobs_are_deleted_when_the_store_is_opened(store: OwnedJobRepository) -> None:
    await add(store, replace(job("job_1", status="completed"), updated_at=0.0))

    async with job_world(store, ScriptedKind({}), retention_days=0.01) as world:
        await world.jobs.resume()
        async with asyncio.timeout(20):
            while await store.list_expired(world.now, 1):  # noqa: ASYNC110 - a deletion sets no event
                await asyncio.sleep(0.001)
