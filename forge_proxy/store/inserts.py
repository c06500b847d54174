"""Inserts with `on_conflict_…`, which SQLAlchemy has for each database apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Table
from sqlalchemy.dialects import postgresql, sqlite

Insert: TypeAlias = sqlite.Insert | postgresql.Insert
_Value: TypeAlias = ColumnElement[Any]


def insert_into(table: Table, dialect: str) -> Insert:
    """Return an insert of the dialect with this name."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


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
