"""Repository of finished requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.requests.records import (
    AttemptRecord,
    CallRecord,
    RequestOrigin,
    RequestRecord,
    TokenCounts,
)
from forge_proxy.core.requests.stored import (
    EndedRequest,
    RequestFilter,
    RequestNotStored,
    RequestRetention,
    StoredRequest,
)
from forge_proxy.store.clean_text import clean_text
from forge_proxy.store.database import Database
from forge_proxy.store.inserts import execute_for_rows, insert_into
from forge_proxy.store.ledger import add_to_ledger, prune_ledger
from forge_proxy.store.tables import REQUEST_CONTENTS, REQUEST_FAULTS, REQUESTS

_DAY = 86400
_PRUNED_AT_ONCE = 500
"""Requests that one transaction deletes. Other writers wait for it: it has to take milliseconds."""
_CONTENTS_READ = 100
_BYTES_PRUNED_AT_ONCE = 4 * 2**20
"""Texts that one transaction deletes: their pages have to be freed one by one."""
_LONGEST_MODEL = 256
_LONGEST_NUMBER = 18
"""Digits of a number that fit into 64 bits."""
_LAST_NUMBER = select(func.max(REQUESTS.c.number))


class RequestRepository:
    """`telemetry.request_writer.RequestStore` and `api.admin.requests.RequestReader` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, ended: Sequence[EndedRequest]) -> None:
        """See `RequestStore`."""
        async with self._database.write() as connection:
            numbers = await _add_requests(connection, ended)
            await _add_details(connection, list(zip(numbers, ended, strict=True)))
            await add_to_ledger(connection, ended)

    async def list(self, which: RequestFilter, *, before: int | None, limit: int) -> Sequence[StoredRequest]:
        """See `RequestReader`."""
        query = select(REQUESTS).where(*_conditions(which))
        if which.fault is not None:
            query = query.join(REQUEST_FAULTS, REQUEST_FAULTS.c.number == REQUESTS.c.number)
            query = query.where(REQUEST_FAULTS.c.fault == which.fault).order_by(REQUEST_FAULTS.c.number.desc())
        else:
            query = query.order_by(REQUESTS.c.number.desc())
        if before is not None:
            query = query.where(REQUESTS.c.number < before)
        async with self._database.read() as connection:
            return [_to_request(row) for row in await connection.execute(query.limit(limit))]

    async def get(self, request: str) -> StoredRequest:
        """See `RequestReader`."""
        async with self._database.read() as connection:
            row = (await connection.execute(_by_name(request))).first()
        if row is None:
            raise RequestNotStored(request)
        return _to_request(row)

    async def read_content(self, number: int) -> bytes | None:
        """See `RequestReader`."""
        chosen = select(REQUEST_CONTENTS.c.data).where(REQUEST_CONTENTS.c.number == number)
        async with self._database.read() as connection:
            return (await connection.execute(chosen)).scalar()

    async def prune(self, retention: RequestRetention, now: float) -> bool:
        """See `RequestStore`."""
        if await self._prune_contents(retention, now):
            return True
        oldest = now - retention.request_days * _DAY
        async with self._database.write() as connection:
            last = (await connection.execute(_LAST_NUMBER)).scalar() or 0
            expired = (REQUESTS.c.ended_at < oldest) | (REQUESTS.c.number <= last - retention.max_requests)
            chosen = select(REQUESTS.c.number).where(expired).order_by(REQUESTS.c.number).limit(_PRUNED_AT_ONCE)
            deleted = await connection.execute(delete(REQUESTS).where(REQUESTS.c.number.in_(chosen)))
            is_ledger_pruned = await prune_ledger(connection, now - retention.ledger_days * _DAY)
        return deleted.rowcount == _PRUNED_AT_ONCE or not is_ledger_pruned

    async def _prune_contents(self, retention: RequestRetention, now: float) -> bool:
        """Delete some of the texts that are too old, or too many. Returns whether any were deleted."""
        table, before = REQUEST_CONTENTS.c, now - min(retention.content_days, retention.request_days) * _DAY
        first = select(table.number, table.ended_at, table.size).order_by(table.number).limit(_CONTENTS_READ)
        async with self._database.read() as connection:
            total = int((await connection.execute(select(func.sum(table.size)))).scalar() or 0)
            rows = (await connection.execute(first)).all()
        deleted: list[int] = []
        size = 0
        for number, ended_at, its_size in rows:
            if size > _BYTES_PRUNED_AT_ONCE or not (ended_at < before or total - size > retention.max_content):
                break
            deleted.append(number)
            size += its_size
        if deleted:
            async with self._database.write() as connection:
                await connection.execute(delete(REQUEST_CONTENTS).where(table.number <= deleted[-1]))
        return bool(deleted)


async def _add_requests(connection: AsyncConnection, ended: Sequence[EndedRequest]) -> Sequence[int]:
    """Add requests; return their numbers.

    SQLite returns one number for each statement, so there they are counted on from the last one: nothing else writes
    during the transaction.
    """
    rows = [_to_row(one) for one in ended]
    if connection.dialect.name == "sqlite":
        last = (await connection.execute(_LAST_NUMBER)).scalar() or 0
        numbers = range(last + 1, last + 1 + len(rows))
        numbered = [{"number": number, **row} for number, row in zip(numbers, rows, strict=True)]
        await execute_for_rows(connection, insert_into(REQUESTS, "sqlite"), numbered)
        return numbers
    adding = insert(REQUESTS).returning(REQUESTS.c.number, sort_by_parameter_order=True)
    return (await connection.execute(adding, rows)).scalars().all()


async def _add_details(connection: AsyncConnection, numbered: Sequence[tuple[int, EndedRequest]]) -> None:
    """Add the faults and texts of requests, which refer to their numbers."""
    dialect = connection.dialect.name
    faults = [
        {"fault": fault, "number": number} for number, one in numbered for fault in sorted(set(one.record.faults))
    ]
    await execute_for_rows(connection, insert_into(REQUEST_FAULTS, dialect), faults)
    contents = [
        {"number": number, "ended_at": one.ended_at, "size": len(one.content), "data": one.content}
        for number, one in numbered
        if one.content is not None
    ]
    await execute_for_rows(connection, insert_into(REQUEST_CONTENTS, dialect), contents)


def _conditions(which: RequestFilter) -> list[ColumnElement[bool]]:
    equal = {
        REQUESTS.c.request_id: which.request_id,
        REQUESTS.c.result: which.result,
        REQUESTS.c.served: which.model,
        REQUESTS.c.surface: which.surface,
        REQUESTS.c.client: which.client,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if which.since is not None:
        conditions.append(REQUESTS.c.ended_at >= which.since)
    if which.until is not None:
        conditions.append(REQUESTS.c.ended_at < which.until)
    return conditions


def _by_name(request: str) -> Select[Any]:
    """Return the query for a request by its number, else the latest one with that id."""
    if request.isdecimal() and request.isascii() and len(request) <= _LONGEST_NUMBER:
        return select(REQUESTS).where(REQUESTS.c.number == int(request))
    name = request if request.isprintable() else ""  # PostgreSQL rejects other text with an error of its own
    return select(REQUESTS).where(REQUESTS.c.request_id == name).order_by(REQUESTS.c.number.desc()).limit(1)


def _to_row(ended: EndedRequest) -> dict[str, Any]:
    record = ended.record
    details = {
        "attempts": [_to_details(attempt) for attempt in record.attempts],
        "calls": [{"tool": call.tool, "outcome": call.outcome.value} for call in record.calls],
        "interventions": record.interventions,
        "error": record.error,
    }
    return {
        "request_id": record.request_id,
        "ended_at": ended.ended_at,
        "surface": clean_text(record.origin.surface, 64),
        "client": clean_text(record.origin.key_label, 64),
        "program": clean_text(record.origin.program, 96),
        "model": None if record.model is None else clean_text(record.model, _LONGEST_MODEL),
        "served": None if record.served is None else clean_text(record.served, _LONGEST_MODEL),
        "quantization": ended.quantization,
        "is_streamed": record.is_streamed,
        "tools": record.tools,
        "result": record.result,
        "seconds": record.seconds,
        "queued": record.queued,
        "first_output": record.first_output,
        "backend_seconds": record.backend_seconds,
        "details": json.dumps(details),
    }


def _to_details(attempt: AttemptRecord) -> dict[str, Any]:
    """Return what is stored of an attempt, without `asdict`: it takes as long as the rest of a row."""
    counts = attempt.tokens
    tokens = {
        "prompt": counts.prompt,
        "cached": counts.cached,
        "completion": counts.completion,
        "reasoning": counts.reasoning,
    }
    return {
        "number": attempt.number,
        "fault": attempt.fault,
        "tool": attempt.tool,
        "reason": attempt.reason,
        "seconds": attempt.seconds,
        "tokens": tokens,
    }


def _to_request(row: Row[Any]) -> StoredRequest:
    details = json.loads(row.details)
    record = RequestRecord(
        row.request_id,
        RequestOrigin(row.surface, row.client, row.program),
        row.model,
        row.served,
        row.is_streamed,
        row.tools,
        row.result,
        row.seconds,
        row.queued,
        row.first_output,
        row.backend_seconds,
        tuple(map(_to_attempt, details["attempts"])),
        tuple(CallRecord(call["tool"], Outcome(call["outcome"])) for call in details["calls"]),
        tuple(details["interventions"]),
        details["error"],
    )
    return StoredRequest(row.number, row.ended_at, row.quantization, record)


def _to_attempt(fields: dict[str, Any]) -> AttemptRecord:
    tokens = TokenCounts(**fields.pop("tokens"))
    return AttemptRecord(**fields, tokens=tokens)
