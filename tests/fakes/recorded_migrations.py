"""Migrations of empty SQLite databases, recorded once in each process of tests.

Ten migrations take 40 ms, and hundreds of tests open a database of their own. The first empty database of a process is
migrated by Alembic; the statements that its tables have then create those of the following ones. Every other database
is migrated by Alembic. Forked daemons have the statements from the process that forks them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection

_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY rowid"
Migrate = Callable[["Connection", str], None]


def read_schema(connection: Connection) -> list[str]:
    """Return the statements that create the tables and indexes of an SQLite database."""
    return [sql for (sql,) in connection.exec_driver_sql(_SCHEMA)]


class RecordedMigrations:
    """Takes the place of `store.database.migrate`."""

    def __init__(self, migrate: Migrate) -> None:
        self._migrate = migrate
        self._statements: list[str] = []

    def __call__(self, connection: Connection, to: str = "head") -> None:
        if to != "head" or connection.dialect.name != "sqlite" or read_schema(connection):
            self._migrate(connection, to)
        elif self._statements:
            for statement in self._statements:
                connection.exec_driver_sql(statement)
        else:
            self._migrate(connection, to)
            (version,) = connection.exec_driver_sql("SELECT version_num FROM alembic_version").one()
            insert = f"INSERT INTO alembic_version (version_num) VALUES ('{version}')"
            self._statements = [*read_schema(connection), insert]


def record_migrations() -> RecordedMigrations | None:
    """Record the migrations of this process from now on, if it has imported what opens databases."""
    database: Any = sys.modules.get("forge_proxy.store.database")
    if database is None:
        return None
    if not isinstance(database.migrate, RecordedMigrations):
        database.migrate = RecordedMigrations(database.migrate)
    return database.migrate


def record_migrations_for_forks() -> None:
    """Migrate a database in memory, so that forks of this process know the statements."""
    from sqlalchemy import create_engine  # local import: most processes of tests open no database

    recorded = record_migrations()
    assert recorded is not None
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        recorded(connection)
    engine.dispose()
