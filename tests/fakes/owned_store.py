"""A repository of runs with a database of its own; in the daemon, all repositories share one."""

from __future__ import annotations

from forge_proxy.store.database import Database, open_database
from forge_proxy.store.jobs import JobRepository


class OwnedJobRepository(JobRepository):
    """Opens and closes its database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._owned = database

    @classmethod
    async def open(cls, url: str) -> OwnedJobRepository:
        """Open the database at a URL. Raises `StoreUnavailable`."""
        return cls(await open_database(url))

    async def close(self) -> None:
        """Close the database and release it."""
        await self._owned.close()
