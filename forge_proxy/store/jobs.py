"""Repository of jobs, their events and documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.jobs.errors import JobConflict, JobIdInUse, JobNotFound
from forge_proxy.core.jobs.records import (
    FINISHED,
    IdempotencyClaim,
    JobEvent,
    JobHead,
    JobStatus,
    Notification,
    Schedule,
    StoredJob,
)
from forge_proxy.jobs.ports import JobChange, JobFilter, NewRow
from forge_proxy.store.database import Database
from forge_proxy.store.documents import check_size, delete_unreferenced, drop_parts, put_documents, read_documents
from forge_proxy.store.job_rows import changed_columns, event_rows
from forge_proxy.store.job_saves import JobSaves
from forge_proxy.store.outbox import insert_messages, insert_wake_if_continued
from forge_proxy.store.tables import JOB_DOCUMENTS, JOB_EVENTS, JOB_NOTIFICATIONS, JOB_SCHEDULES, JOBS

_HEAD = [JOBS.c[field.name] for field in fields(JobHead)]
_JOB = [JOBS.c[field.name] for field in fields(StoredJob)]


class JobRepository:
    """`jobs.ports.JobStore` in a database."""

    def __init__(self, database: Database, *, has_outbox: bool = False) -> None:
        """With `has_outbox`, each change that a scheduler has to act on adds a message (`store/outbox.py`)."""
        self._database = database
        self._has_outbox = has_outbox
        self._saves = JobSaves(database)

    async def create(self, row: NewRow, claim: IdempotencyClaim | None) -> StoredJob:
        """See `JobStore`."""
        claimed = {} if claim is None else {"claim_key": claim.key, "claim_digest": claim.digest}
        try:
            async with self._database.write() as connection:
                await self._insert_top(connection, row, claimed)
        except IntegrityError as error:
            claimed_job = None if claim is None else await self.find_claimed(claim)
            if claimed_job is None:
                raise JobIdInUse(f"there is a job with the id {row.job.id} already") from error
            return claimed_job
        return row.job

    async def _insert_top(self, connection: AsyncConnection, row: NewRow, claimed: Mapping[str, str]) -> None:
        """Insert a job without a parent."""
        await _insert(connection, row, claimed)
        if self._has_outbox:
            await insert_messages(connection, [row.job.id], "start")

    async def find_claimed(self, claim: IdempotencyClaim) -> StoredJob | None:
        """See `JobStore`."""
        async with self._database.read() as connection:
            found = await connection.execute(select(*_JOB, JOBS.c.claim_digest).where(JOBS.c.claim_key == claim.key))
            row = found.one_or_none()
        if row is None:
            return None
        if row.claim_digest != claim.digest:
            raise JobConflict("this Idempotency-Key was used for another submission")
        return _to_job(row[:-1])

    async def get(self, job_id: str) -> StoredJob:
        """See `JobStore`."""
        return _to_job(await self._get_row(_JOB, job_id))

    async def head(self, job_id: str) -> JobHead:
        """See `JobStore`."""
        return JobHead(*await self._get_row(_HEAD, job_id))

    async def list(self, which: JobFilter, *, before: str | None, limit: int) -> Sequence[JobHead]:
        """See `JobStore`."""
        query = select(*_HEAD).where(*_conditions(which)).limit(limit)
        async with self._database.read() as connection:
            if (
                which.kind is not None and not which.by_time
            ):  # the ids of a kind sort by time of creation, also that of a deleted job
                query = query.order_by(JOBS.c.id.desc())
                query = query if before is None else query.where(JOBS.c.id < before)
            else:
                query = query.order_by(JOBS.c.created_at.desc(), JOBS.c.id.desc())
                if before is not None:
                    created_at = (await _get_row(connection, [JOBS.c.created_at], before))[0]
                    query = query.where(tuple_(JOBS.c.created_at, JOBS.c.id) < tuple_(created_at, before))
            return [JobHead(*row) for row in await connection.execute(query)]

    async def list_unfinished(self, *, parent: str | None = None) -> Sequence[JobHead]:
        """See `JobStore`."""
        query = select(*_HEAD).where(JOBS.c.status.not_in(FINISHED)).order_by(JOBS.c.id)
        if parent is not None:
            query = query.where(JOBS.c.parent == parent)
        async with self._database.read() as connection:
            return [JobHead(*row) for row in await connection.execute(query)]

    async def list_descendants(self, roots: Sequence[str]) -> Sequence[JobHead]:
        """See `JobStore`."""
        query = select(*_HEAD).where(JOBS.c.root.in_(roots), JOBS.c.parent.is_not(None))
        async with self._database.read() as connection:
            return [JobHead(*row) for row in await connection.execute(query.order_by(JOBS.c.created_at, JOBS.c.id))]

    async def count_unfinished(self) -> Mapping[JobStatus, int]:
        """See `JobStore`."""
        query = select(JOBS.c.status, func.count()).where(JOBS.c.status.not_in(FINISHED)).group_by(JOBS.c.status)
        async with self._database.read() as connection:
            return {row[0]: row[1] for row in await connection.execute(query)}

    async def list_expired(self, before: float, limit: int) -> Sequence[str]:
        """See `JobStore`."""
        has_ended = (JOBS.c.status.in_(FINISHED), JOBS.c.updated_at < before)
        query = select(JOBS.c.id).where(*has_ended, JOBS.c.parent.is_(None)).limit(limit)
        async with self._database.read() as connection:
            return [*(await connection.execute(query)).scalars()]

    async def count_tree(self, root: str) -> int:
        """See `JobStore`."""
        async with self._database.read() as connection:
            found = await connection.execute(select(func.count()).select_from(JOBS).where(JOBS.c.root == root))
            return found.scalar_one()

    async def list_due(self, now: float) -> Sequence[str]:
        """See `JobStore`."""
        query = select(JOBS.c.id).where(JOBS.c.wake_at <= now, JOBS.c.status.not_in(FINISHED)).order_by(JOBS.c.wake_at)
        async with self._database.read() as connection:
            return [*(await connection.execute(query)).scalars()]

    async def find_next_wake(self, after: float) -> float | None:
        """See `JobStore`."""
        query = select(func.min(JOBS.c.wake_at)).where(JOBS.c.wake_at > after, JOBS.c.status.not_in(FINISHED))
        async with self._database.read() as connection:
            return (await connection.execute(query)).scalar_one()

    async def save(self, change: JobChange) -> None:
        """See `JobStore`."""
        job = change.job
        may_wake = self._has_outbox and job.status == "queued"
        if may_wake or change.children or change.dropped_parts or change.is_notified:
            is_saved = await self._save_alone(change)
        else:
            for document in (*change.documents, *change.parts):
                check_size(document)
            is_saved = await self._saves.save(change)
        if is_saved:
            return
        if [*await self._get_row([JOBS.c.last_event, JOBS.c.change_id], job.id)] != [job.last_event, job.change_id]:
            raise JobConflict(f"the {job.kind} {job.id} was changed by another writer")

    async def _save_alone(self, change: JobChange) -> bool:
        """Store a change in a transaction of its own; return False if the job is not in the state that it builds on."""
        job = change.job
        where = (JOBS.c.id == job.id, JOBS.c.last_event == change.since)
        try:
            async with self._database.write() as connection:
                result = await connection.execute(update(JOBS).where(*where).values(**changed_columns(job)))
                if result.rowcount == 1:
                    await _insert_parts(connection, change)
                    if self._has_outbox:
                        await insert_wake_if_continued(connection, job)
                return result.rowcount == 1
        except IntegrityError as error:
            raise JobIdInUse(f"a child job of the {job.kind} {job.id} has the id of another job") from error

    async def events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        """See `JobStore`."""
        columns = [JOB_EVENTS.c[field.name] for field in fields(JobEvent)]
        query = select(*columns).where(JOB_EVENTS.c.job_id == job_id, JOB_EVENTS.c.id > after)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(JOB_EVENTS.c.id).limit(limit))
            return [JobEvent(*row) for row in rows]

    async def read_documents(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        """See `JobStore`."""
        async with self._database.read() as connection:
            return await read_documents(connection, digests)

    async def list_schedules(self) -> Sequence[Schedule]:
        """See `JobStore`."""
        async with self._database.read() as connection:
            return [Schedule(*row) for row in await connection.execute(select(JOB_SCHEDULES))]

    async def put_schedule(self, schedule: Schedule) -> None:
        """See `JobStore`."""
        async with self._database.write() as connection:
            await connection.execute(delete(JOB_SCHEDULES).where(JOB_SCHEDULES.c.name == schedule.name))
            await connection.execute(insert(JOB_SCHEDULES).values(**asdict(schedule)))

    async def delete_schedule(self, name: str) -> None:
        """See `JobStore`."""
        async with self._database.write() as connection:
            await connection.execute(delete(JOB_SCHEDULES).where(JOB_SCHEDULES.c.name == name))

    async def fire(self, schedule: Schedule, next_at: float, row: NewRow | None) -> bool:
        """See `JobStore`."""
        same = (JOB_SCHEDULES.c.name == schedule.name, JOB_SCHEDULES.c.next_at == schedule.next_at)
        job_id = schedule.job_id if row is None else row.job.id
        async with self._database.write() as connection:
            result = await connection.execute(update(JOB_SCHEDULES).where(*same).values(next_at=next_at, job_id=job_id))
            if result.rowcount == 1 and row is not None:
                await self._insert_top(connection, row, {})
        return result.rowcount == 1

    async def list_notifications(self) -> Sequence[Notification]:
        """See `JobStore`."""
        pending = JOB_NOTIFICATIONS.c
        query = select(pending.job_id, pending.event, JOBS.c.notify_url).join(JOBS, JOBS.c.id == pending.job_id)
        async with self._database.read() as connection:
            return [
                Notification(*row) for row in await connection.execute(query.order_by(pending.job_id, pending.event))
            ]

    async def delete_notification(self, notification: Notification) -> None:
        """See `JobStore`."""
        which = (JOB_NOTIFICATIONS.c.job_id == notification.job_id, JOB_NOTIFICATIONS.c.event == notification.event)
        async with self._database.write() as connection:
            await connection.execute(delete(JOB_NOTIFICATIONS).where(*which))

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """See `JobStore`."""
        return self._database.lock(name)

    async def delete(self, job_id: str) -> None:
        """See `JobStore`."""
        _check_id(job_id)
        async with self._database.write() as connection:
            digests = (await connection.execute(_documents_of_tree(job_id))).scalars().all()
            result = await connection.execute(delete(JOBS).where(JOBS.c.id == job_id))
            await delete_unreferenced(connection, digests)
        if result.rowcount == 0:
            raise JobNotFound(job_id)

    async def _get_row(self, columns: list[Any], job_id: str) -> Sequence[Any]:
        async with self._database.read() as connection:
            return await _get_row(connection, columns, job_id)


async def _insert(connection: AsyncConnection, row: NewRow, claimed: Mapping[str, str]) -> None:
    await connection.execute(insert(JOBS).values(**asdict(row.job), **claimed))
    await connection.execute(insert(JOB_EVENTS), event_rows(row.job.id, row.events))
    await put_documents(connection, row.job.id, row.parts, is_part=True)


async def _insert_parts(connection: AsyncConnection, change: JobChange) -> None:
    """Store all of a change apart from the job itself."""
    job_id = change.job.id
    await connection.execute(insert(JOB_EVENTS), event_rows(job_id, change.events))
    await put_documents(connection, job_id, change.documents)
    await put_documents(connection, job_id, change.parts, is_part=True)
    await drop_parts(connection, job_id, change.dropped_parts)
    for child in change.children:
        await _insert(connection, child, {})
    if change.is_notified:
        await connection.execute(insert(JOB_NOTIFICATIONS).values(job_id=job_id, event=change.job.last_event))


async def _get_row(connection: AsyncConnection, columns: list[Any], job_id: str) -> Sequence[Any]:
    _check_id(job_id)
    row = (await connection.execute(select(*columns).where(JOBS.c.id == job_id))).one_or_none()
    if row is None:
        raise JobNotFound(job_id)
    return row


def _conditions(which: JobFilter) -> list[ColumnElement[bool]]:
    wanted = {"kind": which.kind, "status": which.status, "owner": which.owner, "parent": which.parent}
    conditions = [JOBS.c[name] == value for name, value in wanted.items() if value is not None]
    return [*conditions, JOBS.c.parent.is_(None)] if which.is_top else conditions


def _documents_of_tree(job_id: str) -> Select[Any]:
    tree = select(JOBS.c.id).where(JOBS.c.id == job_id).cte("tree", recursive=True)
    tree = tree.union_all(select(JOBS.c.id).where(JOBS.c.parent == tree.c.id))
    return select(JOB_DOCUMENTS.c.digest).where(JOB_DOCUMENTS.c.job_id.in_(select(tree.c.id))).distinct()


def _check_id(job_id: str) -> None:
    """Raise `JobNotFound` for an unprintable id: PostgreSQL rejects NUL with an error of its own."""
    if not job_id.isprintable():
        raise JobNotFound(job_id)


def _to_job(row: Sequence[Any]) -> StoredJob:
    return StoredJob(*row)
