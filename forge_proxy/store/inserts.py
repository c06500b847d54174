"""Statements for many rows: inserts with `on_conflict_…`, which SQLAlchemy has for each database apart."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import ColumnElement, Table, UpdateBase
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

if TYPE_CHECKING:
    import aiosqlite

Insert: TypeAlias = sqlite.Insert | postgresql.Insert
_Value: TypeAlias = ColumnElement[Any]


@cache
def insert_into(table: Table, dialect: str) -> Insert:
    """Return an insert of the dialect with this name."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


@cache
def insert_missing_into(table: Table, dialect: str) -> Insert:
    """Return an insert that leaves rows as they are that exist already."""
    return insert_into(table, dialect).on_conflict_do_nothing()


@cache
def build_upsert(table: Table, dialect: str, combine: Callable[[_Value, _Value], _Value]) -> Insert:
    """Return an insert that changes a row with the same primary key instead.

    `combine` returns the new value of a column, given the stored one and the one that is inserted. The statement is
    built once: that takes as long as executing it.
    """
    inserting = insert_into(table, dialect)
    keys = [column.name for column in table.primary_key]
    values = {
        column.name: combine(column, inserting.excluded[column.name])
        for column in table.columns
        if column.name not in keys
    }
    return inserting.on_conflict_do_update(index_elements=keys, set_=values)


async def execute_for_rows(
    connection: AsyncConnection, statement: UpdateBase, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Execute a statement for each row; on SQLite by its driver, with values for all columns.

    A statement that SQLAlchemy executes costs half a millisecond of CPU time, and three switches to the thread of the
    connection and back; the driver executes it in one switch for all rows. `statement` is built once, as it is compiled
    once. Raises `IntegrityError` if a constraint is violated, and the other errors of the driver: `sqlite3.Error`.
    """
    if not rows:
        return
    if connection.dialect.name != "sqlite":
        await connection.execute(statement, rows)
        return
    driver = await get_sqlite_driver(connection)
    try:
        await driver.executemany(compile_for_sqlite(statement), rows)
    except sqlite3.IntegrityError as error:
        raise IntegrityError(None, None, error) from error


async def get_sqlite_driver(connection: AsyncConnection) -> aiosqlite.Connection:
    """Return the connection of the driver, which is in the same transaction."""
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None  # noqa: S101 - it is only after the connection was closed
    return driver


@cache
def compile_for_sqlite(statement: UpdateBase, columns: tuple[str, ...] | None = None) -> str:
    """Return a statement as SQL with named parameters. `columns` are those that it sets, all by default."""
    return str(statement.compile(dialect=sqlite.dialect(paramstyle="named"), column_keys=columns))
