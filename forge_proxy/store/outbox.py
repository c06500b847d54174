"""The messages about jobs that still have to be sent to another scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.jobs.actions import RunPhase, read_action
from forge_proxy.core.jobs.records import OutboxEntry, OutboxSignal, StoredJob
from forge_proxy.store.database import Database
from forge_proxy.store.tables import JOB_OUTBOX, JOBS


class OutboxRepository:
    """`temporal.ports.Outbox` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, job_ids: Sequence[str], signal: OutboxSignal) -> None:
        """See `Outbox`."""
        async with self._database.write() as connection:
            await insert_messages(connection, job_ids, signal)

    async def list_pending(self, limit: int) -> Sequence[OutboxEntry]:
        """See `Outbox`."""
        query = select(JOB_OUTBOX.c.id, JOB_OUTBOX.c.job_id, JOB_OUTBOX.c.signal).order_by(JOB_OUTBOX.c.id)
        async with self._database.read() as connection:
            return [OutboxEntry(*row) for row in await connection.execute(query.limit(limit))]

    async def remove(self, entry_ids: Sequence[int]) -> None:
        """See `Outbox`."""
        if not entry_ids:
            return
        async with self._database.write() as connection:
            await connection.execute(delete(JOB_OUTBOX).where(JOB_OUTBOX.c.id.in_(entry_ids)))


async def insert_messages(connection: AsyncConnection, job_ids: Sequence[str], signal: OutboxSignal) -> None:
    """Add a message for each job that exists."""
    for first in range(0, len(job_ids), 500):
        found = select(JOBS.c.id, literal(signal)).where(JOBS.c.id.in_(job_ids[first : first + 500]))
        await connection.execute(insert(JOB_OUTBOX).from_select(["job_id", "signal"], found))


async def insert_wake_if_continued(connection: AsyncConnection, job: StoredJob) -> None:
    """Add a message if a change lets a waiting job run its next phase, such as outputs that its client has posted."""
    if job.status == "queued" and isinstance(read_action(job.action), RunPhase):
        await insert_messages(connection, [job.id], "wake")
