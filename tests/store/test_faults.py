"""A store whose file is lost, damaged, locked or full reports an error; it loses nothing and never hangs."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.store_errors import StoreUnavailable
from tests.contracts.conftest import place
from tests.contracts.test_store import job, row, store
from tests.fakes.full_disk import limit_file_size
from tests.fakes.owned_store import OwnedJobRepository

__all__ = ["place", "store"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def opened(file: Path) -> AsyncGenerator[OwnedJobRepository]:
    """A store in the file, with one run."""
    found = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{file}")
    await found.create(row(), None)
    yield found
    await found.close()


def move(file: Path, to: Path) -> None:
    file.rename(to)


def exists(file: Path) -> bool:
    return file.exists()


def size_of(file: Path) -> int:
    return file.stat().st_size


@pytest.mark.parametrize("lost", ["runs.db", "runs.db.lock"])
async def test_a_deleted_file_is_logged_once_and_not_recreated(
    opened: OwnedJobRepository, file: Path, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    away = file.with_name("away")
    move(file.with_name(lost), away)

    with caplog.at_level(logging.ERROR, "forge_proxy.store"):
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=f"{lost} was deleted while it was in use; move it back"):
                await opened.get("job_1")
            with pytest.raises(StoreUnavailable):
                await opened.create(row(job("job_2")), None)

    assert len(caplog.records) == 1
    assert not exists(file.with_name(lost))
    move(away, file.with_name(lost))
    assert (await opened.get("job_1")).id == "job_1"
    with pytest.raises(JobNotFound):
        await opened.get("job_2")


async def test_a_replaced_file_is_not_used(opened: OwnedJobRepository, file: Path) -> None:
    move(file, file.with_name("away"))
    os.close(os.open(file, os.O_CREAT))

    with pytest.raises(StoreUnavailable, match=r"runs\.db was replaced by another file"):
        await opened.get("job_1")


@pytest.mark.parametrize("damage", ["garbage", "cut"])
async def test_a_damaged_file_is_an_error_of_the_store(opened: OwnedJobRepository, file: Path, damage: str) -> None:
    await opened.close()
    damage_file(file, damage)

    with pytest.raises(StoreUnavailable):
        await reopen(file)


def damage_file(file: Path, how: str) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:4096] + os.urandom(len(data) - 4096) if how == "garbage" else data[:6000])


async def reopen(file: Path) -> None:
    again = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{file}")
    try:
        await again.get("job_1")
    finally:
        await again.close()


async def test_a_locked_file_can_be_read_and_a_write_fails_after_a_bounded_wait(
    opened: OwnedJobRepository, file: Path
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        assert (await opened.get("job_1")).id == "job_1"
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="database is locked"):
            await opened.create(row(job("job_2")), None)
        assert time.monotonic() - began < 30
        other.execute("ROLLBACK")

    await opened.create(row(job("job_2")), None)


async def test_a_failed_write_stores_nothing_and_stored_jobs_can_be_read(
    opened: OwnedJobRepository, file: Path
) -> None:
    with limit_file_size(size_of(file.with_name("runs.db-wal"))):
        with pytest.raises(StoreUnavailable):
            await opened.create(row(job("job_2", title="x" * 100_000)), None)
        assert (await opened.get("job_1")).id == "job_1"
        with pytest.raises(JobNotFound):
            await opened.get("job_2")

    await opened.create(row(job("job_2")), None)
    assert (await opened.get("job_2")).title == job().title


@pytest.mark.parametrize("run_id", ["run_\0", "", "x" * 8000, "run_\ud83d", "\U0001f600", "run_%", "a'b\"", "\n"])
async def test_an_unusual_id_is_not_found(store: OwnedJobRepository, run_id: str) -> None:
    for operation in (store.get, store.head, store.delete):
        with pytest.raises(JobNotFound) as caught:
            await operation(run_id)
        assert len(str(caught.value)) < 400
