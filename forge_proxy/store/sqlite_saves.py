"""Stores changes of jobs by SQLite's driver, as a batch stores thousands of results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Update, bindparam, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.jobs.ports import JobChange
from forge_proxy.store.documents import document_rows
from forge_proxy.store.inserts import Insert, compile_for_sqlite, execute_for_rows, get_sqlite_driver, insert_into
from forge_proxy.store.job_rows import CHANGED, changed_columns, event_rows
from forge_proxy.store.tables import DOCUMENTS, JOB_DOCUMENTS, JOB_EVENTS, JOBS


async def execute_on_sqlite(connection: AsyncConnection, changes: Sequence[JobChange]) -> list[bool]:
    """Store changes; return for each whether the job was in the state that it builds on. Raises `sqlite3.Error`."""
    driver = await get_sqlite_driver(connection)
    saved: list[JobChange] = []
    results: list[bool] = []
    for change in changes:
        row = {"old_id": change.job.id, "since": change.since, **changed_columns(change.job)}
        results.append((await driver.execute(compile_for_sqlite(_update()), row)).rowcount == 1)
        if results[-1]:
            saved.append(change)
    events = [row for one in saved for row in event_rows(one.job.id, one.events)]
    await execute_for_rows(connection, insert_into(JOB_EVENTS, "sqlite"), events)
    contents, references = document_rows([(one.job.id, document) for one in saved for document in one.documents])
    more, parts = document_rows([(one.job.id, part) for one in saved for part in one.parts], is_part=True)
    await execute_for_rows(connection, _insert_documents(), [*contents, *more])
    await execute_for_rows(connection, _insert_references(), [*references, *parts])
    return results


@cache
def _update() -> Update:
    same = (JOBS.c.id == bindparam("old_id"), JOBS.c.last_event == bindparam("since"))
    return update(JOBS).where(*same).values({name: bindparam(name) for name in CHANGED})


@cache
def _insert_documents() -> Insert:
    return sqlite.insert(DOCUMENTS).on_conflict_do_nothing()


@cache
def _insert_references() -> Insert:
    return sqlite.insert(JOB_DOCUMENTS).on_conflict_do_nothing()
