"""The contract of `RunStore`, for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import replace

import pytest

from forge_proxy.core.store_errors import StoreInUse
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound
from forge_proxy.workflows.runs.ports import IdempotencyClaim
from forge_proxy.workflows.runs.records import RunEvent, StoredRun
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.postgres import postgres


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store')}/runs.db"
    else:
        with postgres() as server:
            yield server.url


@pytest.fixture
async def store(place: str) -> AsyncGenerator[OwnedJobRepository]:
    opened = await OwnedJobRepository.open(place)
    for head in await opened.list(before=None, limit=1000, status=None):
        await opened.delete(head.id)
    yield opened
    await opened.close()


def run(run_id: str = "run_1", **fields: object) -> StoredRun:
    made = StoredRun(run_id, "queued", "w", "m", 1.5, 1.5, 1, submission='{"a":1}', state='{"version":1}')
    return replace(made, **fields)


def event(number: int, kind: str = "status") -> RunEvent:
    return RunEvent(number, kind, f'{{"n": {number}, "text": "\\u0000 \\ud83d é"}}', 1.5)


async def test_a_stored_run_is_read_unchanged(store: OwnedJobRepository) -> None:
    made = await store.create(run(model=None), [event(1)], None)

    assert made == run(model=None) == await store.get("run_1")
    assert (await store.head("run_1")).status == "queued"
    assert await store.events("run_1", after=0, limit=10) == [event(1)]


async def test_a_stored_run_survives_a_restart(store: OwnedJobRepository, place: str) -> None:
    await store.create(run(), [event(1)], None)
    await store.close()

    again = await OwnedJobRepository.open(place)

    assert await again.get("run_1") == run()
    await again.close()


async def test_a_change_and_its_events_are_stored_together(store: OwnedJobRepository) -> None:
    await store.create(run(), [event(1)], None)
    after = run(status="running", last_event=3, state='{"version":1,"x":1}', updated_at=2.5)

    await store.save(after, 1, [event(2), event(3)])

    assert await store.get("run_1") == after
    assert [one.id for one in await store.events("run_1", after=1, limit=10)] == [2, 3]
    assert [one.id for one in await store.events("run_1", after=0, limit=2)] == [1, 2]


async def test_a_repeated_save_is_stored_once(store: OwnedJobRepository) -> None:
    await store.create(run(), [event(1)], None)
    after = run(status="running", last_event=2)

    await store.save(after, 1, [event(2)])
    await store.save(after, 1, [event(2)])

    assert [one.id for one in await store.events("run_1", after=0, limit=10)] == [1, 2]


async def test_a_save_over_a_newer_change_is_refused_completely(store: OwnedJobRepository) -> None:
    await store.create(run(), [event(1)], None)
    await store.save(run(status="running", last_event=3), 1, [event(2), event(3)])

    with pytest.raises(JobConflict):
        await store.save(run(status="failed", last_event=2), 1, [event(2, "lost")])

    assert (await store.get("run_1")).status == "running"
    assert all(one.type == "status" for one in await store.events("run_1", after=0, limit=10))


async def test_a_repeated_key_returns_its_run(store: OwnedJobRepository) -> None:
    claim = IdempotencyClaim("k", "digest")
    first = await store.create(run("run_1"), [event(1)], claim)

    again = await store.create(run("run_2"), [event(1)], claim)
    with pytest.raises(JobConflict):
        await store.create(run("run_3"), [event(1)], IdempotencyClaim("k", "another"))

    assert again == first
    assert [head.id for head in await store.list(before=None, limit=10, status=None)] == ["run_1"]


async def test_runs_are_listed_page_by_page_newest_first(store: OwnedJobRepository) -> None:
    for number in range(5):
        status = "completed" if number % 2 else "queued"
        await store.create(run(f"run_{number}", status=status), [event(1)], None)

    async def listed(before: str | None, status: str | None = None) -> list[str]:
        return [head.id for head in await store.list(before=before, limit=2, status=status)]  # type: ignore[arg-type]

    assert [await listed(None), await listed("run_3"), await listed("run_1")] == [
        ["run_4", "run_3"], ["run_2", "run_1"], ["run_0"],
    ]  # fmt: skip
    assert await listed(None, "completed") == ["run_3", "run_1"]
    assert [head.id for head in await store.unfinished()] == ["run_0", "run_2", "run_4"]


async def test_deleting_a_run_deletes_its_events(store: OwnedJobRepository) -> None:
    await store.create(run(), [event(1)], None)

    await store.delete("run_1")

    assert await store.events("run_1", after=0, limit=10) == []
    for operation in (store.get, store.head, store.delete):
        with pytest.raises(JobNotFound):
            await operation("run_1")
    with pytest.raises(JobNotFound):
        await store.save(run(last_event=2), 1, [event(2)])


async def test_a_store_has_one_daemon_at_a_time(store: OwnedJobRepository, place: str) -> None:
    with pytest.raises(StoreInUse):
        await OwnedJobRepository.open(place)
    await store.close()

    await (await OwnedJobRepository.open(place)).close()
