"""Deletes jobs that ended long ago."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.jobs.ports import JobStore

DAY = 24 * 3600.0
_PAUSE_SECONDS = 3600.0
"""Seconds between two searches."""
_AT_A_TIME = 100
"""Jobs that one search returns."""


class JobRetention:
    """Deletes trees of jobs `days` after they have ended. `on_delete` is called with the id of each deleted job."""

    def __init__(self, days: float, now: Callable[[], float], on_delete: Callable[[str], None]) -> None:
        self._seconds = days * DAY
        self._now = now
        self._on_delete = on_delete

    async def run(self, store: JobStore) -> None:
        """Delete what has expired, now and once an hour. Runs until it is cancelled."""
        while True:
            with suppress(StoreUnavailable):  # whoever needs the store reports it
                await self.delete_expired(store)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def delete_expired(self, store: JobStore) -> None:
        """Delete what has expired. Raises `StoreUnavailable`.

        Each job is deleted in a transaction of its own, from the leaves of its tree, so that other writes do not
        wait for long.
        """
        while roots := await store.list_expired(self._now() - self._seconds, _AT_A_TIME):
            for root in roots:
                below = await store.list_descendants([root])
                for head in sorted(below, key=lambda head: -head.depth):
                    await self._delete(store, head.id)
                await self._delete(store, root)

    async def _delete(self, store: JobStore, job_id: str) -> None:
        with suppress(JobNotFound):  # a client has deleted it meanwhile
            await store.delete(job_id)
            self._on_delete(job_id)
