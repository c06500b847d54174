"""Stores changes of jobs by SQLite's driver, within a transaction of SQLAlchemy.

A statement that SQLAlchemy executes costs half a millisecond of CPU time, and three switches to the thread of the
connection and back. A batch stores thousands of results; the driver executes their statements in one switch each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import UpdateBase, bindparam, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.jobs.ports import JobChange
from forge_proxy.store.documents import document_rows
from forge_proxy.store.job_rows import CHANGED, changed_columns, event_rows
from forge_proxy.store.tables import DOCUMENTS, JOB_DOCUMENTS, JOB_EVENTS, JOBS

if TYPE_CHECKING:
    import aiosqlite


async def execute_on_sqlite(connection: AsyncConnection, changes: Sequence[JobChange]) -> list[bool]:
    """Store changes; return for each whether the job was in the state that it builds on. Raises `sqlite3.Error`."""
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None  # noqa: S101 - it is only after the connection was closed
    saved: list[JobChange] = []
    results: list[bool] = []
    for change in changes:
        row = {"old_id": change.job.id, "since": change.since, **changed_columns(change.job)}
        results.append((await driver.execute(_update(), row)).rowcount == 1)
        if results[-1]:
            saved.append(change)
    await _insert(driver, _insert_events(), [row for one in saved for row in event_rows(one.job.id, one.events)])
    contents, references = document_rows([(one.job.id, document) for one in saved for document in one.documents])
    more, parts = document_rows([(one.job.id, part) for one in saved for part in one.parts], is_part=True)
    await _insert(driver, _insert_documents(), [*contents, *more])
    await _insert(driver, _insert_references(), [*references, *parts])
    return results


async def _insert(driver: aiosqlite.Connection, statement: str, rows: Sequence[dict[str, object]]) -> None:
    if rows:
        await driver.executemany(statement, rows)


def _compile(statement: UpdateBase) -> str:
    return str(statement.compile(dialect=sqlite.dialect(paramstyle="named")))


@cache
def _update() -> str:
    same = (JOBS.c.id == bindparam("old_id"), JOBS.c.last_event == bindparam("since"))
    return _compile(update(JOBS).where(*same).values({name: bindparam(name) for name in CHANGED}))


@cache
def _insert_events() -> str:
    return _compile(sqlite.insert(JOB_EVENTS))


@cache
def _insert_documents() -> str:
    return _compile(sqlite.insert(DOCUMENTS).on_conflict_do_nothing())


@cache
def _insert_references() -> str:
    return _compile(sqlite.insert(JOB_DOCUMENTS).on_conflict_do_nothing())
