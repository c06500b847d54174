"""The contract of the records of calls of tasks, for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import NamedTuple

import pytest

from forge_proxy.core.jobs.records import JobEvent, StoredJob
from forge_proxy.core.tasks.call_record import TaskCallRecord
from forge_proxy.jobs.ports import NewRow
from forge_proxy.store.database import open_database
from forge_proxy.store.jobs import JobRepository
from forge_proxy.store.task_calls import TaskCallRepository

CALL = TaskCallRecord(
    "total", 0, 0, 1.5, "generate", None, 1, "generation", "m\0odel", "json", "edits_failed", 100, None, 7, 0.25, 2,
    ("exact", "fuzzy"),
)  # fmt: skip


class Stores(NamedTuple):
    jobs: JobRepository
    calls: TaskCallRepository


@pytest.fixture
async def stores(place: str) -> AsyncGenerator[Stores]:
    database = await open_database(place)
    jobs = JobRepository(database)
    job = StoredJob("total", "task", "completed", "", None, 1.0, 1.0, root="total", action="{}", state="{}")
    await jobs.create(NewRow(job, [JobEvent(1, "status", "{}", 1.0)]), None)
    yield Stores(jobs, TaskCallRepository(database))
    await jobs.delete("total")
    await database.close()


async def test_d42_a_record_is_read_as_it_was_stored_and_replaces_an_earlier_one(stores: Stores) -> None:
    later = replace(CALL, outcome="passed", match_levels=())
    await stores.calls.put([replace(CALL, round=2), CALL])
    await stores.calls.put([replace(CALL, part=1), CALL, later])

    clean = "m\ufffdodel"
    assert await stores.calls.list("total") == [
        replace(later, model=clean), replace(CALL, part=1, model=clean), replace(CALL, round=2, model=clean),
    ]  # fmt: skip


async def test_d42_records_of_tasks_that_do_not_exist_are_not_stored(stores: Stores) -> None:
    await stores.calls.put([replace(CALL, task_id="gone"), CALL])

    assert await stores.calls.list("gone") == []
    assert len(await stores.calls.list("total")) == 1
