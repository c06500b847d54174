"""Two repositories share a database: transactions and errors. Opening the database imports no code of runs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, String, Table, Text, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.store_errors import StoreFull, StoreInUse, StoreLocked, StoreLost, StoreUnavailable
from forge_proxy.store.database import Database, open_database
from forge_proxy.store.inserts import execute_for_rows, insert_into
from forge_proxy.store.jobs import JobRepository
from forge_proxy.store.tables import JOBS
from tests.contracts.conftest import place
from tests.contracts.test_store import job, row
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.postgres import Postgres
from tests.store.test_faults import limit_file_size, move, size_of

__all__ = ["place"]

_METADATA = MetaData()
_NOTES = Table("notes", _METADATA, Column("id", String(64), primary_key=True), Column("text", Text, nullable=False))


class NoteRepository:
    """A new kind of repository, which depends only on the database and its own table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_table(self) -> None:
        """Stands for a migration."""
        async with self._database.write() as connection:
            await connection.run_sync(_METADATA.drop_all)
            await connection.run_sync(_METADATA.create_all)

    async def add(self, note_id: str, text: str) -> None:
        async with self._database.write() as connection:
            await self.add_in(connection, note_id, text)

    async def add_in(self, connection: AsyncConnection, note_id: str, text: str) -> None:
        await connection.execute(insert(_NOTES).values(id=note_id, text=text))

    async def texts(self) -> list[str]:
        async with self._database.read() as connection:
            return [row.text for row in await connection.execute(select(_NOTES).order_by(_NOTES.c.id))]


@pytest.fixture
async def database(place: str) -> AsyncGenerator[Database]:
    opened = await open_database(place)
    await OwnedJobRepository(opened).delete_all()
    yield opened
    await opened.close()


@pytest.fixture
async def notes(database: Database) -> NoteRepository:
    repository = NoteRepository(database)
    await repository.create_table()
    return repository


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def notes_in_file(file: Path) -> AsyncGenerator[NoteRepository]:
    """A repository with one note in an SQLite file."""
    opened = await open_database(f"sqlite+aiosqlite:///{file}")
    repository = NoteRepository(opened)
    await repository.create_table()
    await repository.add("1", "first")
    yield repository
    await opened.close()


async def test_d40_two_repositories_share_one_database(database: Database, notes: NoteRepository) -> None:
    runs = JobRepository(database)

    await notes.add("1", "a note")
    await runs.create(row(), None)

    assert await notes.texts() == ["a note"]
    assert await runs.get("job_1") == job()


async def test_d40_one_transaction_stores_the_rows_of_two_repositories(
    database: Database, notes: NoteRepository
) -> None:
    await JobRepository(database).create(row(), None)

    async with database.write() as connection:
        await notes.add_in(connection, "1", "a note")
        await connection.execute(JOBS.update().where(JOBS.c.id == "job_1").values(status="cancelled"))

    assert await notes.texts() == ["a note"]
    assert (await JobRepository(database).get("job_1")).status == "cancelled"


async def test_a_transaction_that_raises_stores_nothing(database: Database, notes: NoteRepository) -> None:
    await JobRepository(database).create(row(), None)

    async def change_both_and_fail() -> None:
        async with database.write() as connection:
            await notes.add_in(connection, "1", "a note")
            await connection.execute(JOBS.update().where(JOBS.c.id == "job_1").values(status="cancelled"))
            raise RuntimeError("between the two")

    with pytest.raises(RuntimeError, match="between the two"):
        await change_both_and_fail()

    assert await notes.texts() == []
    assert (await JobRepository(database).get("job_1")).status == "queued"


async def test_a_violated_constraint_is_left_to_the_repository(notes: NoteRepository) -> None:
    await notes.add("1", "first")

    with pytest.raises(IntegrityError):
        await notes.add("1", "second")

    assert await notes.texts() == ["first"]


async def test_rows_that_violate_a_constraint_are_left_to_the_repository(
    notes: NoteRepository, database: Database
) -> None:
    rows = [{"id": note_id, "text": "x"} for note_id in ("1", "2", "1")]

    with pytest.raises(IntegrityError):
        async with database.write() as connection:
            await execute_for_rows(connection, insert_into(_NOTES, connection.dialect.name), rows)

    assert await notes.texts() == []


async def test_a_database_has_one_daemon_at_a_time(database: Database, place: str) -> None:
    with pytest.raises(StoreInUse, match="another daemon uses"):
        await open_database(place)
    await database.close()

    await (await open_database(place)).close()


async def test_a_full_database_is_reported_and_its_rows_can_be_read(file: Path) -> None:
    database = await open_database(f"sqlite+aiosqlite:///{file}")
    notes = NoteRepository(database)
    await notes.create_table()
    async with database.write() as connection:  # the one writing connection keeps the limit
        pages = (await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()
        await connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreFull, match="database or disk is full; free some space on its disk"):
        await notes.add("1", "x" * 100_000)

    assert await notes.texts() == []
    await database.close()


async def test_a_full_disk_of_a_postgresql_server_is_reported(postgres_server: Postgres) -> None:
    program = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
    database = await open_database(postgres_server.create_database())

    with pytest.raises(StoreFull, match="could not extend file; free some space"):
        async with database.write() as connection:
            await connection.exec_driver_sql(program)

    await database.close()


async def test_a_failed_write_to_the_disk_stores_nothing(notes_in_file: NoteRepository, file: Path) -> None:
    with limit_file_size(size_of(file.with_name("runs.db-wal"))):
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            await notes_in_file.add("2", "x" * 100_000)
        assert await notes_in_file.texts() == ["first"]

    await notes_in_file.add("2", "second")
    assert await notes_in_file.texts() == ["first", "second"]


async def test_a_locked_database_can_be_read_but_not_written(notes_in_file: NoteRepository, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        assert await notes_in_file.texts() == ["first"]
        with pytest.raises(StoreLocked, match="database is locked; another program uses it"):
            await notes_in_file.add("2", "second")
        other.execute("ROLLBACK")

    await notes_in_file.add("2", "second")


async def test_a_deleted_file_is_an_error_until_it_is_moved_back(notes_in_file: NoteRepository, file: Path) -> None:
    move(file, file.with_name("away"))

    with pytest.raises(StoreLost, match=r"runs\.db was deleted while it was in use; move it back"):
        await notes_in_file.texts()
    with pytest.raises(StoreLost):
        await notes_in_file.add("2", "second")

    move(file.with_name("away"), file)
    assert await notes_in_file.texts() == ["first"]


def test_a_database_is_opened_without_importing_anything_of_runs() -> None:
    program = "import sys, forge_proxy.store.database; print([name for name in sys.modules if 'workflows' in name])"

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
