"""One database, shared by all repositories: opening, migrations, transactions and errors. It knows no repository."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from forge_proxy.core.store_errors import StoreFull, StoreLocked, StoreUnavailable
from forge_proxy.store.connections import LIMIT_LOCKS, LOCK_KEY, WAIT_FOR_MIGRATIONS, DatabaseConnections
from forge_proxy.store.tables import METADATA

_POSTGRES_DISK_FULL = "53100"
"""SQLSTATE `disk_full`."""
_CLOSE_SECONDS = 5.0
"""How long transactions in progress may take when the database is closed."""


class Database:
    """An open database, which this daemon uses exclusively."""

    def __init__(self, connections: DatabaseConnections) -> None:
        self._connections = connections
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncConnection]:
        """Open a transaction that may write. It is rolled back if the block raises.

        Related writes of several repositories use the connection of one transaction. Transactions cannot be nested:
        there is one writing connection. Raises `StoreUnavailable`, or `IntegrityError` if a constraint is violated.
        """
        self._connections.check()
        async with self._count(), _transaction(self._connections.writer) as connection:
            yield connection

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection]:
        """Open a transaction that only reads. Raises `StoreUnavailable`."""
        self._connections.check()
        async with self._count(), _transaction(self._connections.readers) as connection:
            yield connection

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Hold a lock against the other daemons that share the database. SQLite has none, because one daemon uses it.

        Raises `StoreUnavailable`.
        """
        if self._connections.readers.dialect.name == "sqlite":
            yield
            return
        async with self.read() as connection:
            for statement in LIMIT_LOCKS:
                await connection.exec_driver_sql(statement)
            await connection.execute(select(func.pg_advisory_xact_lock(LOCK_KEY, func.hashtext(name))))
            yield

    @asynccontextmanager
    async def _count(self) -> AsyncGenerator[None]:
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def close(self) -> None:
        """Close all connections and release the database for other daemons. Transactions in progress end before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._idle.wait()
        await self._connections.close()


async def open_database(url: str, *, is_shared: bool = False) -> Database:
    """Open the database at a URL, creating it if needed, and migrate its tables. Raises `StoreUnavailable`.

    `is_shared`: whether other daemons may use it at the same time. Only PostgreSQL can be shared.
    """
    try:
        connections = DatabaseConnections(url, is_shared=is_shared)
    except (SQLAlchemyError, ImportError) as exc:
        hint = "; install forge-proxy[postgres]" if isinstance(exc, ImportError) else ""
        raise StoreUnavailable(f"{_describe(exc)}{hint}") from exc
    try:
        connections.lock()
        async with connections.writer.begin() as connection:
            if is_shared:
                await connection.exec_driver_sql(WAIT_FOR_MIGRATIONS)
            await connection.run_sync(migrate)
    except BaseException as exc:
        await connections.close()
        if isinstance(exc, CommandError):
            raise StoreUnavailable(f"a newer forge-proxy or another program wrote the database ({exc})") from exc
        if isinstance(exc, SQLAlchemyError | OSError):
            raise _to_store_error(exc, hint="; check store.url") from exc
        raise
    return Database(connections)


def migrate(connection: Connection, to: str = "head") -> None:
    """Apply the pending migrations up to revision `to`."""
    command.upgrade(_build_config(connection), to)


def downgrade(connection: Connection, to: str) -> None:
    """Undo the migrations after revision `to`, or all for `base`: an earlier version can open the database then.

    Data that only later versions store is lost. Raises `ValueError` if jobs would be lost.
    """
    command.downgrade(_build_config(connection), to)


def _build_config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", "forge_proxy.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, metadata=METADATA)
    return config


@asynccontextmanager
async def _transaction(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    try:
        async with engine.begin() as connection:
            yield connection
    except IntegrityError:
        raise
    except (SQLAlchemyError, sqlite3.Error, OSError) as exc:
        raise _to_store_error(exc) from exc


def _to_store_error(error: SQLAlchemyError | sqlite3.Error | OSError, hint: str = "") -> StoreUnavailable:
    """Return a database error as an error of the store."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # the low byte of an extended code is the primary code
    if code == sqlite3.SQLITE_FULL or getattr(cause, "sqlstate", None) == _POSTGRES_DISK_FULL:
        return StoreFull(f"{_describe(error)}; free some space on its disk")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(f"{_describe(error)}; another program uses it")
    return StoreUnavailable(f"{_describe(error)}{hint}")


def _describe(error: Exception) -> str:
    """Describe a database error without SQL statements and their parameters, which contain prompts."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else 'no message'}"
