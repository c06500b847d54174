"""Repository of the reliability ledger: counts per hour."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import add
from typing import Any

from sqlalchemy import Integer, RowMapping, Select, Table, cast, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.requests.alerts import WINDOW_HOURS, CallWindow
from forge_proxy.core.requests.ledger import (
    LedgerCounts,
    LedgerKey,
    RequestCounts,
    add_counts,
    count_calls,
    count_request,
)
from forge_proxy.core.requests.records import REPLAY
from forge_proxy.core.requests.stored import (
    DURATION_BOUNDS,
    HOUR,
    DurationClass,
    EndedRequest,
    LedgerRow,
    RequestHour,
)
from forge_proxy.store.clean_text import clean_text
from forge_proxy.store.database import Database
from forge_proxy.store.inserts import build_upsert, execute_for_rows
from forge_proxy.store.tables import DURATIONS, LEDGER, REQUEST_HOURS

_HOURS_PRUNED_AT_ONCE = 24
_LONGEST_MODEL, _LONGEST_TOOL = 256, 96
"""Characters, as in the tables."""
_KEY = ("model", "quantization", "tool", "fault")
_SECONDS = frozenset({"seconds", "retry_seconds"})
_COUNTS = tuple(field.name for field in fields(LedgerCounts))
_REQUEST_COUNTS = tuple(field.name for field in fields(RequestCounts))


class LedgerRepository:
    """`api.admin.ledger.LedgerReader` and `telemetry.ledger_watch.CallWindows` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_calls(self, since: float, until: float, model: str | None) -> Sequence[LedgerRow]:
        """See `LedgerReader`."""
        keys, sums = [LEDGER.c[name] for name in _KEY], [func.sum(LEDGER.c[name]).label(name) for name in _COUNTS]
        chosen = select(*keys, *sums).where(*_within(LEDGER, since, until, model)).group_by(*keys)
        rows = await self._read(chosen)
        return [LedgerRow(LedgerKey(**_part(row, _KEY)), LedgerCounts(**_numbers(row, _COUNTS))) for row in rows]

    async def call_windows(self, first: int, last: int) -> Sequence[CallWindow]:
        """See `CallWindows`."""
        age = cast((last - LEDGER.c.hour) // WINDOW_HOURS, Integer).label("age")
        sums = func.sum(LEDGER.c.calls).label("calls"), func.sum(LEDGER.c.calls - LEDGER.c.clean).label("faults")
        keys = (age, LEDGER.c.model, LEDGER.c.tool)
        chosen = select(*keys, *sums).where(LEDGER.c.hour >= first, LEDGER.c.hour <= last).group_by(*keys)
        rows = await self._read(chosen)
        return [
            CallWindow(int(row["age"]), row["model"], row["tool"], int(row["calls"]), int(row["faults"]))
            for row in rows
        ]

    async def list_hours(self, since: float, until: float, model: str | None) -> Sequence[RequestHour]:
        """See `LedgerReader`."""
        table = REQUEST_HOURS
        ordered = (table.c.hour, table.c.model, table.c.quantization)
        rows = await self._read(select(table).where(*_within(table, since, until, model)).order_by(*ordered))
        return [
            RequestHour(
                row["hour"] * HOUR,
                row["model"],
                row["quantization"],
                RequestCounts(**_numbers(row, _REQUEST_COUNTS)),
            )
            for row in rows
        ]

    async def list_durations(self, since: float, until: float, model: str | None) -> Sequence[DurationClass]:
        """See `LedgerReader`."""
        keys = (DURATIONS.c.model, DURATIONS.c.measure, DURATIONS.c.bucket)
        chosen = select(*keys, func.sum(DURATIONS.c.count).label("total"))
        chosen = chosen.where(*_within(DURATIONS, since, until, model)).group_by(*keys).order_by(*keys)
        rows = await self._read(chosen)
        return [DurationClass(row["model"], row["measure"], row["bucket"], int(row["total"])) for row in rows]

    async def _read(self, query: Select[*tuple[Any, ...]]) -> Sequence[RowMapping]:
        async with self._database.read() as connection:
            return (await connection.execute(query)).mappings().all()


def _part(row: RowMapping, names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _values(part: object, names: Sequence[str]) -> dict[str, Any]:
    """Return fields by their names. `asdict` takes five times as long."""
    return {name: getattr(part, name) for name in names}


def _numbers(row: RowMapping, names: Sequence[str]) -> dict[str, Any]:
    """Return counts of a row. PostgreSQL returns sums of integers as decimals."""
    return {name: float(row[name]) if name in _SECONDS else int(row[name]) for name in names}


async def add_to_ledger(connection: AsyncConnection, ended: Sequence[EndedRequest]) -> None:
    """Add finished requests to the counts of their hours."""
    calls: dict[tuple[int, LedgerKey], LedgerCounts] = {}
    hours: dict[tuple[int, str, str], RequestCounts] = {}
    durations: dict[tuple[int, str, str, int], int] = {}
    for one in ended:
        if one.record.origin.surface == REPLAY:  # it would count a fault twice, or one that the guardrails did not see
            continue
        hour, model = int(one.ended_at // HOUR), clean_text(one.model, _LONGEST_MODEL)
        for key, counts in count_calls(one.record, model, one.quantization).items():
            add_counts(calls, (hour, key), counts)
        add_counts(hours, (hour, model, one.quantization), count_request(one.record))
        for measure, seconds in (("total", one.record.seconds), ("first_output", one.record.first_output)):
            if seconds is not None:
                bucket = (hour, model, measure, bisect_left(DURATION_BOUNDS, seconds))
                durations[bucket] = durations.get(bucket, 0) + 1
    by_tool = [
        {
            "hour": hour,
            **_values(key, _KEY),
            "tool": clean_text(key.tool, _LONGEST_TOOL),
            **_values(counts, _COUNTS),
        }
        for (hour, key), counts in calls.items()
    ]
    await _add(connection, LEDGER, by_tool)
    by_hour = [
        {"hour": hour, "model": model, "quantization": quantization, **_values(counts, _REQUEST_COUNTS)}
        for (hour, model, quantization), counts in hours.items()
    ]
    await _add(connection, REQUEST_HOURS, by_hour)
    by_class = [
        {"hour": hour, "model": model, "measure": measure, "bucket": bucket, "count": count}
        for (hour, model, measure, bucket), count in durations.items()
    ]
    await _add(connection, DURATIONS, by_class)


async def prune_ledger(connection: AsyncConnection, before: float) -> bool:
    """Delete some hours before a time. Returns whether none is left."""
    last = int(before // HOUR)
    oldest = (await connection.execute(select(func.min(REQUEST_HOURS.c.hour)))).scalar()
    if oldest is None or oldest >= last:
        return True
    until = min(last, oldest + _HOURS_PRUNED_AT_ONCE)
    for table in (LEDGER, REQUEST_HOURS, DURATIONS):
        await connection.execute(delete(table).where(table.c.hour < until))
    return until == last


async def _add(connection: AsyncConnection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; if a row with the same key exists, add the counts to it."""
    keys = [column.name for column in table.primary_key]
    # In one order, so that two daemons on one PostgreSQL do not lock each other's rows in a circle.
    ordered = sorted(rows, key=lambda row: [row[name] for name in keys])
    await execute_for_rows(connection, build_upsert(table, connection.dialect.name, add), ordered)


def _within(table: Table, since: float, until: float, model: str | None) -> list[Any]:
    """Return the conditions for the hours that overlap a period."""
    conditions = [table.c.hour >= int(since // HOUR), table.c.hour <= int(until // HOUR)]
    return conditions if model is None else [*conditions, table.c.model == model]
