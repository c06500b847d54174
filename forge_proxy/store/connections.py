"""Database connections, and the lock that gives one daemon exclusive use of the database.

All writes use one connection. On PostgreSQL this connection holds an advisory lock, so a daemon that loses it can no
longer write. On SQLite the operating system locks a file next to the database. Both locks end with the process,
however it ends, so they need no expiry and no clock (docs/decisions/0022).
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from forge_proxy.core.store_errors import StoreInUse, StoreLost
from forge_proxy.store.config import find_sqlite_file

LOCK_KEY = 0x666F7267
"""Key of PostgreSQL's advisory locks: "forg" in ASCII."""
WAIT_FOR_MIGRATIONS = f"SELECT pg_advisory_xact_lock({LOCK_KEY + 1})"
"""Lets one daemon of several migrate the tables, until its transaction ends."""
LIMIT_LOCKS = ("SET LOCAL lock_timeout = '10s'", "SET LOCAL idle_in_transaction_session_timeout = '30s'")
"""Limits how long a transaction waits for a lock, and how long one that hangs holds it."""
_BUSY_SECONDS = 5.0
"""How long SQLite waits for other programs that have the file locked."""
_QUEUE_SECONDS = 10.0
"""How long a request waits for a connection. While another program locks the file, requests wait one after another."""
_CONNECT_SECONDS = 10.0
"""Time limit for connecting to PostgreSQL; requests wait meanwhile."""
_READERS = 4
_LOG = logging.getLogger(__name__)


class DatabaseConnections:
    """The one writing connection, and the reading connections."""

    def __init__(self, url: str, *, is_shared: bool = False) -> None:
        """`is_shared`: whether other daemons may use the database at the same time; PostgreSQL only."""
        self._file = find_sqlite_file(url)
        if self._file is not None:
            self.writer = _sqlite(url, "BEGIN IMMEDIATE", 1)
            self.readers = _sqlite(url, "BEGIN", _READERS)
        else:
            self.writer, self.readers = _postgres(url, 1), _postgres(url, _READERS)
            event.listen(self.writer.sync_engine, "connect", _lock_shared if is_shared else _lock_postgres)
        self._lock_descriptor = -1
        self._identities: dict[Path, tuple[int, int]] = {}
        self._is_reported = False

    def lock(self) -> None:
        """Lock an SQLite database. Raises `StoreInUse` or `OSError`."""
        if self._file is None:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_file = Path(f"{self._file}.lock")
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(descriptor)
            raise StoreInUse(str(self._file)) from exc
        self._lock_descriptor = descriptor
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # 0600: prompts are private
        self._identities = {path: _identity(path) for path in (self._file, lock_file)}

    def check(self) -> None:
        """Raise `StoreLost` if a file was deleted or replaced since it was opened.

        A deleted file stays writable while it is open, and its contents are lost when the daemon stops. No new file is
        created in its place, because the stored data would be missing from it.
        """
        for path, identity in self._identities.items():
            try:
                found = _identity(path)
            except OSError:
                found = None
            if found != identity:
                what = "was deleted" if found is None else "was replaced by another file"
                why = f"{path} {what} while it was in use; move it back, or restart the daemon"
                if not self._is_reported:
                    self._is_reported = True
                    _LOG.error("%s", why, extra={"log_fields": {"event": "store lost", "error": why}})
                raise StoreLost(why)
        self._is_reported = False

    async def close(self) -> None:
        """Close all connections and release the lock."""
        await self.writer.dispose()
        await self.readers.dispose()
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _postgres(url: str, size: int) -> AsyncEngine:
    connect_args = {"timeout": _CONNECT_SECONDS}
    return create_async_engine(
        url, pool_size=size, max_overflow=0, pool_timeout=_QUEUE_SECONDS, pool_pre_ping=True, connect_args=connect_args
    )


def _sqlite(url: str, begin: str, size: int) -> AsyncEngine:
    engine = create_async_engine(
        url, pool_size=size, max_overflow=0, pool_timeout=_QUEUE_SECONDS, connect_args={"timeout": _BUSY_SECONDS}
    )

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: DBAPIConnection, _: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # explicit BEGIN: the driver would run schema changes outside the transaction
        cursor = connection.cursor()
        # synchronous=FULL: a tool whose result was stored is not executed twice, even after a power failure. It costs
        # one fsync per step. A killed daemon would not need it: the operating system already has the written data.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin_transaction(connection: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.exec_driver_sql(begin)

    return engine


def _lock_postgres(connection: DBAPIConnection, _: Any) -> None:
    """Take the advisory lock whenever the writing connection is opened, at the start or after it was lost."""
    _lock(connection, "pg_try_advisory_lock")


def _lock_shared(connection: DBAPIConnection, _: Any) -> None:
    """Take the same lock, together with other daemons that share the database."""
    _lock(connection, "pg_try_advisory_lock_shared")


def _lock(connection: DBAPIConnection, function: str) -> None:
    cursor = connection.cursor()
    cursor.execute(f"SELECT {function}({LOCK_KEY})")
    (is_locked,) = cursor.fetchone() or (False,)
    cursor.close()
    connection.commit()
    if not is_locked:
        connection.close()
        raise StoreInUse("this database")
