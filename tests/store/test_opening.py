"""Opening a store: URL, migrations, permissions and errors."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import ValidationError
from sqlalchemy import inspect

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable
from forge_proxy.store.config import StoreConfig
from forge_proxy.store.connections import DatabaseConnections
from forge_proxy.store.tables import METADATA
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.postgres import postgres


def url(file: Path) -> str:
    return f"sqlite+aiosqlite:///{file}"


async def fail_within_migration(connections: DatabaseConnections) -> None:
    async with connections.writer.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE runs (id TEXT)")
        raise RuntimeError("killed")


async def test_d41_the_migrations_create_the_declared_tables(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    await (await OwnedJobRepository.open(url(file))).close()

    connections = DatabaseConnections(url(file))
    async with connections.writer.connect() as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), METADATA)
        )
        tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    await connections.close()

    assert differences == []
    assert set(tables) == {
        "jobs",
        "job_events",
        "documents",
        "job_documents",
        "responses",
        "response_items",
        "conversations",
        "files",
        "job_notifications",
        "job_outbox",
        "job_schedules",
        "ledger",
        "request_contents",
        "request_durations",
        "request_faults",
        "request_hours",
        "requests",
        "task_calls",
        "file_blocks",
        "alembic_version",
    }


async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    file = tmp_path / "state" / "forge-proxy" / "runs.db"

    await (await OwnedJobRepository.open(url(file))).close()

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_d41_an_interrupted_migration_leaves_nothing_behind(tmp_path: Path) -> None:
    """Migrations are one transaction, on SQLite too."""
    file = tmp_path / "runs.db"
    connections = DatabaseConnections(url(file))
    with pytest.raises(RuntimeError, match="killed"):
        await fail_within_migration(connections)
    await connections.close()

    store = await OwnedJobRepository.open(url(file))

    assert await store.list_unfinished() == []
    await store.close()


async def test_d41_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    await (await OwnedJobRepository.open(url(file))).close()
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()

    with pytest.raises(StoreUnavailable, match="a newer forge-proxy or another program wrote"):
        await OwnedJobRepository.open(url(file))


async def test_a_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    file.write_text("this is not a database, and longer than the header of one: it is only text")

    with pytest.raises(StoreUnavailable, match="file is not a database"):
        await OwnedJobRepository.open(url(file))
    with pytest.raises(StoreUnavailable, match=r"check store\.url"):
        await OwnedJobRepository.open(url(file / "below" / "runs.db"))


async def test_an_unreachable_postgresql_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await OwnedJobRepository.open(f"postgresql+asyncpg://someone@/runs?host={tmp_path}")
    with postgres() as server, pytest.raises(StoreUnavailable, match="does not exist"):
        await OwnedJobRepository.open(server.url.replace("/postgres?", "/nowhere?"))


async def test_after_a_restart_of_postgresql_the_first_daemon_to_lock_it_writes() -> None:
    with postgres() as server:
        first = await OwnedJobRepository.open(server.url)
        server.stop()
        with pytest.raises(StoreUnavailable):
            await first.delete("x")
        server.start()
        with pytest.raises(JobNotFound):
            await first.delete("x")
        with pytest.raises(StoreInUse):
            await OwnedJobRepository.open(server.url)

        server.stop()
        server.start()
        second = await OwnedJobRepository.open(server.url)

        with pytest.raises(StoreInUse):
            await first.delete("x")
        await first.close()
        await second.close()


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ("mysql://x/y", "expected sqlite"),
        ("sqlite+aiosqlite://", "expected a file that persists"),
        ("sqlite+aiosqlite:///:memory:", "expected a file that persists"),
        ("postgresql+asyncpg://user@host", "the database name is missing"),
    ],
)
def test_an_invalid_url_is_refused_with_the_expected_form(invalid: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        StoreConfig(url=invalid)
