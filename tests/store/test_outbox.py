"""Messages for another scheduler are stored with the change that they report, or not at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from forge_proxy.core.jobs.actions import RunPhase, Wait, write_action
from forge_proxy.core.jobs.errors import JobConflict
from forge_proxy.core.jobs.records import JobEvent, StoredJob
from forge_proxy.jobs.ports import JobChange, NewRow
from forge_proxy.store.database import open_database
from forge_proxy.store.jobs import JobRepository
from forge_proxy.store.outbox import OutboxRepository

PHASE = RunPhase("first", "tests")
JOB = StoredJob("job_1", "test", "queued", "t", "m", 1.5, 1.5, 1, root="job_1", action=write_action(PHASE), state="{}")


@dataclass
class Place:
    """A store of jobs, and its outbox."""

    jobs: JobRepository
    outbox: OutboxRepository

    async def messages(self) -> list[tuple[str, str]]:
        return [(entry.job_id, entry.signal) for entry in await self.outbox.list_pending(10)]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Place]:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
    place = Place(JobRepository(database, has_outbox=True), OutboxRepository(database))
    await place.jobs.create(NewRow(JOB, [JobEvent(1, "status", "{}", 1.5)]), None)
    yield place
    await database.close()


def changed(**fields: object) -> JobChange:
    return JobChange(replace(JOB, last_event=2, **fields), 1, [JobEvent(2, "status", "{}", 2.5)])


async def test_a_new_job_has_a_message_until_it_is_removed(place: Place) -> None:
    (entry,) = await place.outbox.list_pending(10)
    await place.outbox.remove([entry.id])
    await place.outbox.remove([])

    assert (entry.job_id, entry.signal) == ("job_1", "start")
    assert await place.messages() == []


async def test_a_change_that_lets_a_waiting_job_continue_has_a_message(place: Place) -> None:
    await place.jobs.save(changed(status="queued"))

    assert await place.messages() == [("job_1", "start"), ("job_1", "wake")]


@pytest.mark.parametrize(
    "fields",
    [{"status": "running"}, {"status": "queued", "action": write_action(Wait(99.0, PHASE, "queued"))}],
    ids=["it runs", "its next attempt has to wait"],
)
async def test_other_changes_have_no_message(place: Place, fields: dict[str, str]) -> None:
    await place.jobs.save(changed(**fields))

    assert await place.messages() == [("job_1", "start")]


async def test_a_rejected_change_leaves_no_message(place: Place) -> None:
    await place.jobs.save(changed(status="running"))

    with pytest.raises(JobConflict):
        await place.jobs.save(changed(status="queued", change_id="other"))

    assert await place.messages() == [("job_1", "start")]


async def test_messages_are_added_for_jobs_that_exist_and_deleted_with_them(place: Place) -> None:
    await place.outbox.add(["job_1", "unknown"], "cancel")
    before = await place.messages()
    await place.jobs.save(changed(status="completed"))
    await place.jobs.delete("job_1")

    assert before == [("job_1", "start"), ("job_1", "cancel")]
    assert await place.messages() == []
