"""Connections to the database, and that no other daemon has any.

All writing goes through one connection. On PostgreSQL that one holds an advisory lock, so a daemon that has lost it can
write nothing any more; on SQLite a lock of the operating system is held on a file beside the database. Both end with
the process, however it ends: there is nothing to expire, and no clock to trust (docs/decisions/0022).
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

from forge_proxy.store.config import sqlite_file
from forge_proxy.workflows.runs.errors import StoreInUse, StoreUnavailable

_LOCK = 0x666F7267
"""Of PostgreSQL's advisory locks, which are numbers, the one that is ours: "forg"."""
_BUSY_SECONDS = 5.0
"""How long SQLite waits for other programs that look into its file."""
_QUEUE_SECONDS = 10.0
"""How long a request waits for a connection: while another program holds the file, each before it waits in its turn."""
_CONNECT_SECONDS = 10.0
"""How long a PostgreSQL may take to let us in: requests wait for it."""
_READERS = 4
_LOG = logging.getLogger(__name__)


class DatabaseConnections:
    """The one connection that writes, and those that read."""

    def __init__(self, url: str) -> None:
        self._file = sqlite_file(url)
        if self._file is not None:
            self.writer = _sqlite(url, "BEGIN IMMEDIATE", 1)
            self.readers = _sqlite(url, "BEGIN", _READERS)
        else:
            self.writer, self.readers = _postgres(url, 1), _postgres(url, _READERS)
            event.listen(self.writer.sync_engine, "connect", _lock_postgres)
        self._held = -1
        self._identities: dict[Path, tuple[int, int]] = {}
        self._is_reported = False

    def take(self) -> None:
        """Hold the lock of a file. Raises `StoreInUse` or `OSError`."""
        if self._file is None:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = Path(f"{self._file}.lock")
        held = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(held)
            raise StoreInUse(str(self._file)) from exc
        self._held = held
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # prompts are nobody else's
        self._identities = {path: _identity(path) for path in (self._file, beside)}

    def check(self) -> None:
        """Raise `StoreUnavailable` if a file is not the one that was opened.

        A deleted file can be written for as long as it is open, and is gone with the daemon. A new one is not made in
        its place: runs that were there would be missing from it.
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
                    _LOG.error("%s", why, extra={"said": {"event": "store lost", "error": why}})
                raise StoreUnavailable(why)
        self._is_reported = False

    async def close(self) -> None:
        """Close all of them, and let the lock go."""
        await self.writer.dispose()
        await self.readers.dispose()
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _postgres(url: str, size: int) -> AsyncEngine:
    connecting = {"timeout": _CONNECT_SECONDS}
    return create_async_engine(
        url, pool_size=size, max_overflow=0, pool_timeout=_QUEUE_SECONDS, pool_pre_ping=True, connect_args=connecting
    )


def _sqlite(url: str, begin: str, size: int) -> AsyncEngine:
    engine = create_async_engine(
        url, pool_size=size, max_overflow=0, pool_timeout=_QUEUE_SECONDS, connect_args={"timeout": _BUSY_SECONDS}
    )

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: DBAPIConnection, _: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # transactions begin where we say, or changes of tables would be outside
        cursor = connection.cursor()
        # FULL: after a power failure as well, no tool is executed twice whose result was stored. A killed daemon needs
        # nothing of the kind, since what was written is the operating system's by then; it costs a step one fsync.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.exec_driver_sql(begin)

    return engine


def _lock_postgres(connection: DBAPIConnection, _: Any) -> None:
    """Whenever the writing connection is made, at the start or after it was lost."""
    cursor = connection.cursor()
    cursor.execute(f"SELECT pg_try_advisory_lock({_LOCK})")
    (mine,) = cursor.fetchone() or (False,)
    cursor.close()
    connection.commit()
    if not mine:
        connection.close()
        raise StoreInUse("this database")
