"""Repository of the records of calls of tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Row, select

from forge_proxy.core.tasks.call_record import TaskCallRecord
from forge_proxy.store.clean_text import clean_text
from forge_proxy.store.database import Database
from forge_proxy.store.inserts import build_upsert, execute_for_rows
from forge_proxy.store.tables import JOBS, TASK_CALLS

_COLUMNS = ("task_id", "round", "part", "at", "tier", "model", "outcome")
_LONGEST_MODEL = 256


class TaskCallRepository:
    """`telemetry.task_call_writer.TaskCallStore` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, records: Sequence[TaskCallRecord]) -> None:
        """See `TaskCallStore`."""
        rows = {(one.task_id, one.round, one.part): _to_row(one) for one in records}  # the latest record of a call
        async with self._database.write() as connection:
            ids = {key[0] for key in rows}
            known = set((await connection.execute(select(JOBS.c.id).where(JOBS.c.id.in_(ids)))).scalars())
            kept = [row for key, row in rows.items() if key[0] in known]
            await execute_for_rows(connection, build_upsert(TASK_CALLS, connection.dialect.name, _replace), kept)

    async def list(self, task_id: str) -> Sequence[TaskCallRecord]:
        """See `TaskCallStore`."""
        query = select(TASK_CALLS).where(TASK_CALLS.c.task_id == task_id)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(TASK_CALLS.c.round, TASK_CALLS.c.part))
            return [_to_record(row) for row in rows]


def _replace(_: ColumnElement[Any], inserted: ColumnElement[Any]) -> ColumnElement[Any]:
    return inserted


def _to_row(record: TaskCallRecord) -> dict[str, Any]:
    values = asdict(record)
    row = {name: values.pop(name) for name in _COLUMNS}
    return {**row, "model": clean_text(record.model, _LONGEST_MODEL), "details": json.dumps(values)}


def _to_record(row: Row[Any]) -> TaskCallRecord:
    details = json.loads(row.details)
    details["match_levels"] = tuple(details["match_levels"])
    return TaskCallRecord(**{name: getattr(row, name) for name in _COLUMNS}, **details)
