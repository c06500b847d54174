"""Opens the store: locks the database and migrates its tables."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from forge_proxy.store.connections import DatabaseConnections
from forge_proxy.store.runs import StoredRuns, words_of
from forge_proxy.store.tables import METADATA
from forge_proxy.workflows.runs.errors import StoreUnavailable


async def open_store(url: str) -> StoredRuns:
    """Open the database at a URL, creating it if needed. Raises `StoreUnavailable`."""
    try:
        databases = DatabaseConnections(url)
    except (SQLAlchemyError, ImportError) as exc:
        hint = "; install forge-proxy[postgres]" if isinstance(exc, ImportError) else ""
        raise StoreUnavailable(f"{words_of(exc)}{hint}") from exc
    try:
        databases.take()
        async with databases.writer.begin() as connection:
            await connection.run_sync(migrate)
    except BaseException as exc:
        await databases.close()
        if isinstance(exc, CommandError):
            raise StoreUnavailable(f"a newer forge-proxy or another program wrote the database ({exc})") from exc
        if isinstance(exc, SQLAlchemyError | OSError):
            raise StoreUnavailable(f"{words_of(exc)}; check store.url") from exc
        raise
    return StoredRuns(databases)


def migrate(connection: Connection, to: str = "head") -> None:
    """Apply the pending migrations up to revision `to`."""
    config = Config()
    config.set_main_option("script_location", "forge_proxy.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, metadata=METADATA)
    command.upgrade(config, to)
