"""Opens the store: takes it, brings its tables up to date."""

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
    """The runs that are stored there; the database is made where there is none. Raises `StoreUnavailable`."""
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
            raise StoreUnavailable(f"a newer forge-proxy wrote it, or it is another program's ({exc})") from exc
        if isinstance(exc, SQLAlchemyError | OSError):
            raise StoreUnavailable(f"{words_of(exc)}; store.url says where it is") from exc
        raise
    return StoredRuns(databases)


def migrate(connection: Connection, to: str = "head") -> None:
    """Make the changes that are missing in these tables."""
    config = Config()
    config.set_main_option("script_location", "forge_proxy.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, metadata=METADATA)
    command.upgrade(config, to)
