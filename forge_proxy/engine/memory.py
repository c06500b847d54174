"""One account of the bytes that request bodies, buffered responses and slow readers hold together.

Code that is about to hold many bytes reserves them first, and waits if there is no room. It counts what is reported:
nothing is measured here.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from forge_proxy.core.errors import ForgeError

MEGABYTE = 1024 * 1024
SMALL = 4 * MEGABYTE
"""Bytes of a reservation that never waits behind larger ones."""
_LARGE_SHARE = 0.75
"""The share of the budget that large reservations may fill; the rest is for small ones."""
_MOST_MB = 2048
_WAIT_SECONDS = 60.0
_STEP = 256 * 1024
"""Bytes by which the reservation of a response grows. Smaller responses are not counted."""
_RESPONSE_WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_RETRY_SECONDS = 5


def memory_limit(setting_mb: int | None, machine_mb: int | None) -> int:
    """Bytes of the budget: the setting, else a quarter of the machine's memory, at most 2 GB."""
    if setting_mb is not None:
        return setting_mb * MEGABYTE
    return (_MOST_MB if machine_mb is None else min(_MOST_MB, machine_mb // 4)) * MEGABYTE


class MemoryFull(ForgeError):
    """There was no room for a request's bytes. Retry after `seconds`."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the requests and responses under way fill the {limit // MEGABYTE} MB of server.memory_mb; retry later"
        )
        self.seconds = _RETRY_SECONDS


class TooLargeForMemory(ForgeError):
    """What a request needs is more than large requests may ever have together."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the request needs {size / MEGABYTE:.0f} MB of memory, three times its body; large requests have "
            f"{limit / MEGABYTE:.0f} MB, three quarters of server.memory_mb"
        )


class MemoryBudget:
    """At most `limit` bytes. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._large_limit = int(limit * _LARGE_SHARE)
        self._small: deque[tuple[asyncio.Future[None], int]] = deque()
        self._large: deque[tuple[asyncio.Future[None], int]] = deque()

    def take(self, size: int) -> bool:
        """Reserve so many bytes if there is room now and no other of their class waits."""
        queue, room = self._class_of(size)
        if queue or self.used + size > room:
            return False
        self.used += size
        return True

    async def reserve(self, size: int, seconds: float = _WAIT_SECONDS) -> None:
        """Reserve so many bytes, in turn. Raises `MemoryFull` after `seconds`, and `TooLargeForMemory`."""
        queue, room = self._class_of(size)
        if size > room:
            raise TooLargeForMemory(size, room)
        if self.take(size):
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append((granted, size))
        try:
            async with asyncio.timeout(seconds):
                await granted
        except BaseException as exc:
            if granted.done() and not granted.cancelled():
                self.release(size)
            elif (granted, size) in queue:
                queue.remove((granted, size))
                self._admit()  # who stood behind it may be smaller
            if isinstance(exc, TimeoutError):
                raise MemoryFull(self.limit) from exc
            raise

    def extend(self, size: int) -> bool:
        """Reserve more for one that has a reservation, ahead of all who wait, if there is room now.

        It does not wait: two that wait for more, and return nothing meanwhile, would wait for each other.
        """
        if self.used + size > self.limit:
            return False
        self.used += size
        return True

    def extend_response(self, size: int, *, is_large: bool) -> bool:
        """Reserve more for a buffered response if there is room now; large ones leave the share of the small ones."""
        if self.used + size > (self._large_limit if is_large else self.limit):
            return False
        self.used += size
        return True

    def add(self, size: int) -> None:
        """Count bytes that are held already, whether there is room for them or not."""
        self.used += size

    def release(self, size: int) -> None:
        """Return what was reserved or added, or a part of it."""
        self.used -= size
        if self._small or self._large:
            self._admit()

    def _admit(self) -> None:
        for queue, room in ((self._small, self.limit), (self._large, self._large_limit)):
            while queue and self.used + queue[0][1] <= room:
                granted, size = queue.popleft()
                if not granted.done():  # else it is being cancelled, and has not taken itself out yet
                    self.used += size
                    granted.set_result(None)

    def _class_of(self, size: int) -> tuple[deque[tuple[asyncio.Future[None], int]], int]:
        return (self._small, self.limit) if size <= SMALL else (self._large, self._large_limit)


class ResponseMemory:
    """What one attempt has reserved for its buffered response. It ends with the block."""

    def __init__(self, memory: MemoryBudget | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory = memory
        self._clock = clock
        self._reserved = 0

    def __enter__(self) -> ResponseMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Return all that is reserved."""
        if self._memory is not None:
            self._memory.release(self._reserved)
        self._reserved = 0

    async def grow_to(self, size: int) -> None:
        """Reserve as much as a response of `size` bytes needs; while there is no room, the model server is not read.

        Raises `MemoryFull` after ten seconds: what two attempts that wait for each other have is returned then.
        """
        more = size - self._reserved
        if self._memory is None or more <= _STEP:
            return
        more += -more % _STEP
        until = self._clock() + _RESPONSE_WAIT_SECONDS
        while not self._memory.extend_response(more, is_large=self._reserved + more > SMALL):
            if self._clock() >= until:
                raise MemoryFull(self._memory.limit)
            await asyncio.sleep(_LOOK_SECONDS)
        self._reserved += more
