"""Repository of runs and their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from forge_proxy.store.database import Database
from forge_proxy.store.tables import EVENTS, RUNS
from forge_proxy.workflows.runs.errors import RunConflict, RunNotFound
from forge_proxy.workflows.runs.ports import IdempotencyClaim
from forge_proxy.workflows.runs.records import FINISHED, RunEvent, RunHead, RunStatus, StoredRun

_HEAD = [RUNS.c[field.name] for field in fields(RunHead)]
_RUN = [RUNS.c[field.name] for field in fields(StoredRun)]


class RunRepository:
    """`workflows.runs.ports.RunStore` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, run: StoredRun, events: Sequence[RunEvent], claim: IdempotencyClaim | None) -> StoredRun:
        """See the port."""
        claimed = {} if claim is None else {"claim_key": claim.key, "claim_digest": claim.digest}
        try:
            async with self._database.write() as connection:
                await connection.execute(insert(RUNS).values(**asdict(run), **claimed))
                await connection.execute(insert(EVENTS), _event_rows(run.id, events))
        except IntegrityError:
            if claim is None:
                raise
            return await self._get_claimed(claim)
        return run

    async def _get_claimed(self, claim: IdempotencyClaim) -> StoredRun:
        async with self._database.read() as connection:
            found = await connection.execute(select(*_RUN, RUNS.c.claim_digest).where(RUNS.c.claim_key == claim.key))
            row = found.one()
        if row.claim_digest != claim.digest:
            raise RunConflict("this Idempotency-Key was used for another submission")
        return _to_run(row[:-1])

    async def get(self, run_id: str) -> StoredRun:
        """See the port."""
        return _to_run(await self._get_row(_RUN, run_id))

    async def head(self, run_id: str) -> RunHead:
        """See the port."""
        return RunHead(*await self._get_row(_HEAD, run_id))

    async def list(self, *, before: str | None, limit: int, status: RunStatus | None) -> Sequence[RunHead]:
        """See the port."""
        query = select(*_HEAD).order_by(RUNS.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(RUNS.c.id < before)
        if status is not None:
            query = query.where(RUNS.c.status == status)
        async with self._database.read() as connection:
            return [RunHead(*row) for row in await connection.execute(query)]

    async def unfinished(self) -> Sequence[RunHead]:
        """See the port."""
        query = select(*_HEAD).where(RUNS.c.status.not_in(FINISHED)).order_by(RUNS.c.id)
        async with self._database.read() as connection:
            return [RunHead(*row) for row in await connection.execute(query)]

    async def save(self, run: StoredRun, since: int, events: Sequence[RunEvent]) -> None:
        """See the port."""
        changed = {name: value for name, value in asdict(run).items() if name not in ("id", "created_at", "submission")}
        async with self._database.write() as connection:
            result = await connection.execute(
                update(RUNS).where(RUNS.c.id == run.id, RUNS.c.last_event == since).values(**changed)
            )
            if result.rowcount == 1:
                await connection.execute(insert(EVENTS), _event_rows(run.id, events))
                return
        stored = await self.head(run.id)
        if stored.last_event != run.last_event:
            raise RunConflict(f"the run {run.id} was changed by another writer")

    async def events(self, run_id: str, *, after: int, limit: int) -> Sequence[RunEvent]:
        """See the port."""
        columns = [EVENTS.c[field.name] for field in fields(RunEvent)]
        query = select(*columns).where(EVENTS.c.run_id == run_id, EVENTS.c.id > after)
        async with self._database.read() as connection:
            return [RunEvent(*row) for row in await connection.execute(query.order_by(EVENTS.c.id).limit(limit))]

    async def delete(self, run_id: str) -> None:
        """See the port."""
        _check_id(run_id)
        async with self._database.write() as connection:
            result = await connection.execute(delete(RUNS).where(RUNS.c.id == run_id))
        if result.rowcount == 0:
            raise RunNotFound(run_id)

    async def _get_row(self, columns: list[Any], run_id: str) -> Sequence[Any]:
        _check_id(run_id)
        async with self._database.read() as connection:
            row = (await connection.execute(select(*columns).where(RUNS.c.id == run_id))).one_or_none()
        if row is None:
            raise RunNotFound(run_id)
        return row


def _check_id(run_id: str) -> None:
    """Raise `RunNotFound` for an unprintable id: PostgreSQL rejects NUL with an error of its own."""
    if not run_id.isprintable():
        raise RunNotFound(run_id)


def _event_rows(run_id: str, events: Sequence[RunEvent]) -> list[dict[str, Any]]:
    return [{"run_id": run_id, **asdict(event)} for event in events]


def _to_run(row: Sequence[Any]) -> StoredRun:
    return StoredRun(*row)
