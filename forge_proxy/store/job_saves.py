"""Stores changes of several jobs in one transaction, if they come while another one is being stored.

A transaction costs a disk write and a dozen switches between threads, whatever is in it. Jobs that run side by side,
such as the shards of a batch, then share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.jobs.ports import JobChange
from forge_proxy.store.database import Database
from forge_proxy.store.documents import put_all_documents
from forge_proxy.store.job_rows import changed_columns, event_rows
from forge_proxy.store.sqlite_saves import execute_on_sqlite
from forge_proxy.store.tables import JOB_EVENTS, JOBS

_MOST = 32
"""Changes of one transaction."""


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
            store = execute_on_sqlite if connection.dialect.name == "sqlite" else _execute
            return await store(connection, changes)


async def _execute(connection: AsyncConnection, changes: Sequence[JobChange]) -> list[bool]:
    results: list[bool] = []
    for change in changes:
        job = change.job
        where = (JOBS.c.id == job.id, JOBS.c.last_event == change.since)
        result = await connection.execute(update(JOBS).where(*where).values(**changed_columns(job)))
        results.append(result.rowcount == 1)
    saved = [change for change, is_saved in zip(changes, results, strict=True) if is_saved]
    events = [row for change in saved for row in event_rows(change.job.id, change.events)]
    if events:
        await connection.execute(insert(JOB_EVENTS), events)
    documents = [(change.job.id, document) for change in saved for document in change.documents]
    await put_all_documents(connection, documents)
    parts = [(change.job.id, document) for change in saved for document in change.parts]
    await put_all_documents(connection, parts, is_part=True)
    return results
