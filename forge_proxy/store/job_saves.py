"""Stores changes of several jobs in one transaction, if they come while another one is being stored.

A transaction costs a disk write and a dozen switches between threads, whatever is in it. Jobs that run side by side,
such as the shards of a batch, then share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.jobs.ports import JobChange
from forge_proxy.store.database import Database
from forge_proxy.store.documents import put_all_documents
from forge_proxy.store.inserts import compile_for_sqlite, execute_for_rows, get_sqlite_driver, insert_into
from forge_proxy.store.job_rows import CHANGED, changed_columns, event_rows
from forge_proxy.store.tables import JOB_EVENTS, JOBS

_MOST = 32
"""Changes of one transaction."""
_UPDATE = update(JOBS).where(JOBS.c.id == bindparam("old_id"), JOBS.c.last_event == bindparam("since"))


class JobSaves:
    """Stores changes that have no new child jobs, notify nobody and remove nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[JobChange, asyncio.Future[bool]]] = []
        self._storing: asyncio.Task[None] | None = None

    async def save(self, change: JobChange) -> bool:
        """Store a change; return False if the job is not in the state that it builds on.

        Raises `StoreUnavailable`.
        """
        saved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, saved))
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store_waiting())
        return await saved

    async def _store_waiting(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            some = [(change, saved) for change, saved in some if not saved.done()]  # others were cancelled
            try:
                results = await self._store([change for change, _ in some])
            except Exception as error:  # noqa: BLE001 - each caller handles it
                for _, saved in some:
                    if not saved.done():
                        saved.set_exception(error)
            else:
                for (_, saved), is_saved in zip(some, results, strict=True):
                    if not saved.done():
                        saved.set_result(is_saved)

    async def _store(self, changes: Sequence[JobChange]) -> list[bool]:
        async with self._database.write() as connection:
            results = await _update(connection, changes)
            saved = [change for change, is_saved in zip(changes, results, strict=True) if is_saved]
            events = [row for one in saved for row in event_rows(one.job.id, one.events)]
            await execute_for_rows(connection, insert_into(JOB_EVENTS, connection.dialect.name), events)
            documents = [(one.job.id, document) for one in saved for document in one.documents]
            await put_all_documents(connection, documents)
            parts = [(one.job.id, part) for one in saved for part in one.parts]
            await put_all_documents(connection, parts, is_part=True)
            return results


async def _update(connection: AsyncConnection, changes: Sequence[JobChange]) -> list[bool]:
    """Store the states of jobs; return for each whether the job was in the state that the change builds on.

    By SQLite's driver for the reason that `execute_for_rows` gives: a batch stores thousands of results.
    """
    driver = await get_sqlite_driver(connection) if connection.dialect.name == "sqlite" else None
    results: list[bool] = []
    for change in changes:
        row = {"old_id": change.job.id, "since": change.since, **changed_columns(change.job)}
        if driver is not None:
            count = (await driver.execute(compile_for_sqlite(_UPDATE, CHANGED), row)).rowcount
        else:
            count = (await connection.execute(_UPDATE, row)).rowcount
        results.append(count == 1)
    return results
