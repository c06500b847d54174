"""The contract of `JobStore`, for SQLite and PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from forge_proxy.core.jobs.errors import JobConflict, JobIdInUse, JobNotFound
from forge_proxy.core.jobs.packed_text import list_digests, pack, unpack
from forge_proxy.core.jobs.records import Document, IdempotencyClaim, JobEvent, Notification, Schedule, StoredJob
from forge_proxy.core.store_errors import StoreInUse
from forge_proxy.jobs.ports import JobChange, JobFilter, NewRow
from tests.fakes.owned_store import OwnedJobRepository

ALL = JobFilter()


@pytest.fixture
async def store(place: str) -> AsyncGenerator[OwnedJobRepository]:
    opened = await OwnedJobRepository.open(place)
    await opened.delete_all()
    yield opened
    await opened.close()


def job(job_id: str = "job_1", **fields: object) -> StoredJob:
    made = StoredJob(job_id, "test", "queued", "t", "m", 1.5, 1.5, 1, root=job_id, action="{}", state='{"a":1}')
    return replace(made, **fields)


def child(job_id: str, parent: str = "job_1", **fields: object) -> StoredJob:
    return job(job_id, parent=parent, root="job_1", depth=1, **fields)


def row(made: StoredJob | None = None) -> NewRow:
    return NewRow(made or job(), [event(1)])


def event(number: int, kind: str = "status") -> JobEvent:
    return JobEvent(number, kind, f'{{"n": {number}, "text": "\\u0000 \\ud83d é"}}', 1.5)


async def test_d40_a_stored_job_is_read_unchanged(store: OwnedJobRepository) -> None:
    full = job(model=None, wake_at=7.5, owner="o", outcome="{}", notify_url="http://x", cancel_requested=True)

    made = await store.create(row(full), None)

    assert made == full == await store.get("job_1")
    assert (await store.head("job_1")).status == "queued"
    assert await store.events("job_1", after=0, limit=10) == [event(1)]


async def test_d40_a_stored_job_survives_a_restart(store: OwnedJobRepository, place: str) -> None:
    await store.create(row(), None)
    await store.close()

    again = await OwnedJobRepository.open(place)

    assert await again.get("job_1") == job()
    await again.close()


async def test_d39_a_change_is_stored_with_its_events_children_and_documents(store: OwnedJobRepository) -> None:
    await store.create(row(), None)
    after = job(status="waiting", last_event=3, state='{"x":1}', updated_at=2.5, wake_at=9.5)
    large = Document(b"content" * 1000)

    await store.save(JobChange(after, 1, [event(2), event(3)], [large], children=[row(child("job_1.1"))]))

    assert await store.get("job_1") == after
    assert [one.id for one in await store.events("job_1", after=1, limit=10)] == [2, 3]
    assert [one.id for one in await store.events("job_1", after=0, limit=2)] == [1, 2]
    assert await store.get("job_1.1") == child("job_1.1")
    assert await store.read_documents([large.digest, "unknown"]) == {large.digest: large.content}


async def test_a_repeated_save_is_stored_once(store: OwnedJobRepository) -> None:
    await store.create(row(), None)
    change = JobChange(job(status="running", last_event=2), 1, [event(2)], children=[row(child("job_1.1"))])

    await store.save(change)
    await store.save(change)

    assert [one.id for one in await store.events("job_1", after=0, limit=10)] == [1, 2]
    assert await store.count_tree("job_1") == 2


async def test_a_save_over_a_newer_change_is_refused_completely(store: OwnedJobRepository) -> None:
    await store.create(row(), None)
    await store.save(JobChange(job(status="running", last_event=3), 1, [event(2), event(3)]))
    lost = Document(b"lost")
    late = JobChange(
        job(status="failed", last_event=2), 1, [event(2, "lost")], [lost], children=[row(child("job_1.1"))]
    )

    with pytest.raises(JobConflict):
        await store.save(late)

    assert (await store.get("job_1")).status == "running"
    assert all(one.type == "status" for one in await store.events("job_1", after=0, limit=10))
    assert await store.read_documents([lost.digest]) == {}
    assert await store.count_tree("job_1") == 1


async def test_a_save_of_another_writer_with_as_many_events_is_not_mistaken_for_a_repeated_one(
    store: OwnedJobRepository,
) -> None:
    await store.create(row(), None)
    own = JobChange(job(status="running", last_event=2, change_id="own"), 1, [event(2)])
    await store.save(JobChange(job(status="failed", last_event=2, change_id="other"), 1, [event(2)]))

    with pytest.raises(JobConflict):
        await store.save(own)

    assert (await store.get("job_1")).status == "failed"


async def test_a_child_with_the_id_of_another_job_is_refused_with_its_whole_change(store: OwnedJobRepository) -> None:
    await store.create(row(), None)
    await store.create(row(job("job_2")), None)

    with pytest.raises(JobIdInUse, match="job_1"):
        await store.save(JobChange(job(last_event=2), 1, [event(2)], children=[row(child("job_2"))]))

    assert (await store.get("job_1")).last_event == 1


async def test_a_repeated_key_returns_its_job(store: OwnedJobRepository) -> None:
    claim = IdempotencyClaim("k", "digest")
    first = await store.create(row(), claim)

    again = await store.create(row(job("job_2")), claim)
    with pytest.raises(JobConflict):
        await store.create(row(job("job_3")), IdempotencyClaim("k", "another"))

    assert again == first == await store.find_claimed(claim)
    assert await store.find_claimed(IdempotencyClaim("other", "digest")) is None
    assert [head.id for head in await store.list(ALL, before=None, limit=10)] == ["job_1"]


async def test_jobs_are_listed_page_by_page_newest_first(store: OwnedJobRepository) -> None:
    for number in range(5):
        status = "completed" if number % 2 else "queued"
        await store.create(row(job(f"job_{number}", status=status, created_at=float(number))), None)
    await store.create(row(job("a_1", kind="other", owner="o", created_at=9.0)), None)

    async def listed(which: JobFilter, before: str | None = None) -> list[str]:
        return [head.id for head in await store.list(which, before=before, limit=2)]

    of_kind = JobFilter(kind="test")
    assert [await listed(of_kind), await listed(of_kind, "job_3"), await listed(of_kind, "job_1")] == [
        ["job_4", "job_3"], ["job_2", "job_1"], ["job_0"],
    ]  # fmt: skip
    assert [await listed(ALL), await listed(ALL, "job_4")] == [["a_1", "job_4"], ["job_3", "job_2"]]
    assert await listed(JobFilter(status="completed")) == ["job_3", "job_1"]
    assert await listed(JobFilter(owner="o")) == ["a_1"]
    assert [head.id for head in await store.list_unfinished()] == ["a_1", "job_0", "job_2", "job_4"]


async def test_unfinished_children_are_found_by_their_parent(store: OwnedJobRepository) -> None:
    await store.create(row(), None)
    for number, status in enumerate(("queued", "completed", "waiting")):
        await store.create(row(child(f"job_1.{number}", status=status)), None)

    assert [head.id for head in await store.list_unfinished(parent="job_1")] == ["job_1.0", "job_1.2"]
    assert [head.id for head in await store.list(JobFilter(parent="job_1"), before=None, limit=9)] == [
        "job_1.2", "job_1.1", "job_1.0",
    ]  # fmt: skip


async def test_the_jobs_below_others_are_found_by_their_roots(store: OwnedJobRepository) -> None:
    await store.create(row(), None)
    await store.create(row(child("job_1.1", created_at=2.0)), None)
    await store.create(row(child("job_1.1.1", "job_1.1", created_at=3.0)), None)
    await store.create(row(job("job_2")), None)

    assert [head.id for head in await store.list_descendants(["job_1", "job_2"])] == ["job_1.1", "job_1.1.1"]
    assert await store.list_descendants([]) == []
    assert {head.id for head in await store.list(JobFilter(is_top=True), before=None, limit=9)} == {"job_1", "job_2"}


async def test_unfinished_jobs_are_counted_by_status(store: OwnedJobRepository) -> None:
    for number, status in enumerate(("queued", "queued", "waiting", "completed")):
        await store.create(row(job(f"job_{number}", status=status)), None)

    assert await store.count_unfinished() == {"queued": 2, "waiting": 1}


async def test_jobs_expire_with_the_end_of_their_root(store: OwnedJobRepository) -> None:
    for number, status in enumerate(("completed", "failed", "waiting", "cancelled")):
        await store.create(row(job(f"job_{number}", status=status, updated_at=float(number))), None)
    await store.create(row(child("job_1.1", status="completed", updated_at=0.0)), None)

    assert sorted(await store.list_expired(3.0, 9)) == ["job_0", "job_1"]
    assert len(await store.list_expired(3.0, 1)) == 1


async def test_waiting_jobs_are_due_in_the_order_of_their_times(store: OwnedJobRepository) -> None:
    for number, wake_at in enumerate((30.0, 10.0, None, 20.0)):
        await store.create(row(job(f"job_{number}", status="waiting", wake_at=wake_at)), None)
    await store.create(row(job("job_9", status="cancelled", wake_at=5.0)), None)

    assert [await store.find_next_wake(after) for after in (0.0, 10.0, 30.0)] == [10.0, 20.0, None]
    assert await store.list_due(20.0) == ["job_1", "job_3"]
    assert await store.list_due(9.0) == []


async def test_a_schedule_fires_once_for_each_of_its_times(store: OwnedJobRepository) -> None:
    await store.put_schedule(Schedule("s", "test", 60.0, 100.0))
    (schedule,) = await store.list_schedules()

    assert await store.fire(schedule, 160.0, row())
    assert not await store.fire(schedule, 160.0, row(job("job_2")))

    assert await store.list_schedules() == [Schedule("s", "test", 60.0, 160.0, "job_1")]
    assert [head.id for head in await store.list(ALL, before=None, limit=9)] == ["job_1"]
    assert await store.fire(Schedule("s", "test", 60.0, 160.0, "job_1"), 220.0, None)
    assert await store.list_schedules() == [Schedule("s", "test", 60.0, 220.0, "job_1")]
    await store.put_schedule(Schedule("s", "test", 5.0, 7.0))
    assert await store.list_schedules() == [Schedule("s", "test", 5.0, 7.0)]
    await store.delete_schedule("s")
    await store.delete_schedule("s")
    assert await store.list_schedules() == []


async def test_a_change_of_status_is_notified_until_the_notification_is_deleted(store: OwnedJobRepository) -> None:
    await store.create(row(job(notify_url="http://x")), None)
    await store.create(row(job("job_2")), None)
    steps = [
        ("running", "status"),
        ("requires_action", "status"),
        ("requires_action", "message"),
        ("completed", "status"),
    ]
    for since, (status, kind) in enumerate(steps, 1):
        for job_id, url in (("job_1", "http://x"), ("job_2", None)):
            after = job(job_id, status=status, last_event=since + 1, notify_url=url)
            await store.save(JobChange(after, since, [event(since + 1, kind)]))

    pending = await store.list_notifications()
    assert pending == [Notification("job_1", 3, "http://x"), Notification("job_1", 5, "http://x")]
    await store.delete_notification(pending[0])
    assert await store.list_notifications() == pending[1:]
    await store.delete("job_1")
    assert await store.list_notifications() == []


async def test_d39_a_document_is_kept_while_a_job_refers_to_it(store: OwnedJobRepository) -> None:
    shared, own = Document(b"shared"), Document(b"own")
    for job_id, documents in (("job_1", [shared, own]), ("job_2", [shared])):
        await store.create(row(job(job_id)), None)
        await store.save(JobChange(job(job_id, last_event=2), 1, [event(2)], documents))

    await store.delete("job_1")
    assert await store.read_documents([shared.digest, own.digest]) == {shared.digest: b"shared"}
    await store.delete("job_2")
    assert await store.read_documents([shared.digest]) == {}


async def test_d39_the_parts_of_a_state_are_replaced_with_it(store: OwnedJobRepository) -> None:
    first, second = (pack(os.urandom(100_000).hex()) for _ in range(2))
    await store.create(NewRow(job(state=first.text), [event(1)], first.parts), None)
    before = await store.read_documents(list_digests(first.text))

    after = job(state=second.text, last_event=2)
    await store.save(JobChange(after, 1, [event(2)], parts=second.parts, dropped_parts=list_digests(first.text)))

    assert unpack(first.text, before) is not None
    assert await store.read_documents(list_digests(first.text)) == {}
    found = await store.read_documents(list_digests(second.text))
    assert found == {part.digest: part.content for part in second.parts}


async def test_deleting_a_job_deletes_its_events_and_the_jobs_below_it(store: OwnedJobRepository) -> None:
    below = Document(b"below")
    await store.create(row(), None)
    await store.create(row(child("job_1.1")), None)
    await store.create(row(child("job_1.1.1", "job_1.1")), None)
    await store.save(JobChange(child("job_1.1.1", "job_1.1", last_event=2), 1, [event(2)], [below]))

    await store.delete("job_1")

    assert await store.events("job_1", after=0, limit=10) == []
    for operation in (store.get, store.head, store.delete):
        for job_id in ("job_1", "job_1.1", "job_1.1.1"):
            with pytest.raises(JobNotFound):
                await operation(job_id)
    assert await store.read_documents([below.digest]) == {}
    with pytest.raises(JobNotFound):
        await store.save(JobChange(job(last_event=2), 1, [event(2)]))


async def test_a_store_has_one_daemon_at_a_time(store: OwnedJobRepository, place: str) -> None:
    with pytest.raises(StoreInUse):
        await OwnedJobRepository.open(place)
    await store.close()

    await (await OwnedJobRepository.open(place)).close()
