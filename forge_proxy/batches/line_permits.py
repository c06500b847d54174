"""How many lines of all batches are sent at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class LinePermits:
    """At most as many lines as the model server has slots, and some more, which fill a slot while a response is stored.

    Each shard that runs has a first worker, which keeps its permit from line to line. Helpers of a shard get what the
    first workers leave, so that few or short shards use all slots, too.
    """

    def __init__(self, slots: Callable[[], int]) -> None:
        self._slots = slots
        self._used = 0
        self._first: deque[asyncio.Future[None]] = deque()
        self._helpers: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """The number of permits."""
        slots = self._slots()
        return slots + max(1, slots // 4)

    @asynccontextmanager
    async def permit(self, *, is_helper: bool) -> AsyncGenerator[None]:
        """Wait for a permit and keep it until the block ends."""
        await self._acquire(self._helpers if is_helper else self._first)
        try:
            yield
        finally:
            self._used -= 1
            self._grant()

    async def _acquire(self, queue: deque[asyncio.Future[None]]) -> None:
        grant: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(grant)
        self._grant()
        try:
            await grant
        except asyncio.CancelledError:
            if grant.done() and not grant.cancelled():  # it was granted at the last moment
                self._used -= 1
                self._grant()
            raise

    def _grant(self) -> None:
        limit = self.limit
        for queue in (self._first, self._helpers):
            while queue and self._used < limit:
                grant = queue.popleft()
                if not grant.done():
                    self._used += 1
                    grant.set_result(None)
