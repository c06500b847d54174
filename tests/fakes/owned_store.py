"""A repository of jobs with a database of its own; in the daemon, all repositories share one."""

from __future__ import annotations

from forge_proxy.jobs.ports import JobFilter
from forge_proxy.store.database import Database, open_database
from forge_proxy.store.jobs import JobRepository


class OwnedJobRepository(JobRepository):
    """Opens and closes its database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._owned = database

    @property
    def database(self) -> Database:
        """The database, for other repositories."""
        return self._owned

    @classmethod
    async def open(cls, url: str, *, is_shared: bool = False) -> OwnedJobRepository:
        """Open the database at a URL. Raises `StoreUnavailable`."""
        return cls(await open_database(url, is_shared=is_shared))

    async def delete_all(self) -> None:
        """Delete every job that has no parent, and with it those below it."""
        for head in await self.list(JobFilter(), before=None, limit=1000):
            if head.parent is None:
                await self.delete(head.id)

    async def close(self) -> None:
        """Close the database and release it."""
        await self._owned.close()
