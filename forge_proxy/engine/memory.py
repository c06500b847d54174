"""One memory budget for request bodies, buffered responses and data that slow clients have not read yet.

Code that is about to buffer many bytes reserves them first, and waits if there is no room. The budget counts what is
reserved and measures nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.body import BufferedSize, measure_text

MEGABYTE = 1024 * 1024
SMALL = 4 * MEGABYTE
"""Bytes of a reservation that never waits behind larger ones."""
_REQUEST = MEGABYTE
"""Bytes of a reservation for the body of an ordinary request, which never waits behind responses."""
_SMALL_SHARE = 0.875
"""The share of the budget that small reservations may fill; the rest is for ordinary requests."""
_LARGE_SHARE = 0.75
"""The share of the budget that large reservations may fill; the rest is for small ones."""
_MAX_DEFAULT_MB = 2048
_WAIT_SECONDS = 60.0
_STEP = 256 * 1024
"""Bytes by which the reservation of a response grows. Smaller responses are not counted."""
_RESPONSE_WAIT_SECONDS = 10.0
_RETRY_SECONDS = 5
_COPIES = 3
"""How often a chunk is in memory while it passes: as received, parsed, and encoded for the client."""


def memory_limit(setting_mb: int | None, machine_mb: int | None) -> int:
    """Bytes of the budget: the setting, else a quarter of the machine's memory, at most 2 GB."""
    if setting_mb is not None:
        return setting_mb * MEGABYTE
    return (_MAX_DEFAULT_MB if machine_mb is None else min(_MAX_DEFAULT_MB, machine_mb // 4)) * MEGABYTE


class MemoryFull(ForgeError):
    """There was no room for a request's bytes. Retry after `seconds`."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"running requests and responses fill the {limit // MEGABYTE} MB of server.memory_mb; retry later"
        )
        self.seconds = _RETRY_SECONDS


class TooLargeForMemory(ForgeError):
    """A request needs more memory than all large requests may have together."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the request needs {size / MEGABYTE:.0f} MB of memory, three times its body; large requests have "
            f"{limit / MEGABYTE:.0f} MB, three quarters of server.memory_mb"
        )


_Queue: TypeAlias = deque[tuple[asyncio.Future[None], int]]
"""Waiters and the bytes that they wait for, in order of arrival."""


@dataclass(slots=True)
class _Class:
    """A size class of reservations, with its queues: ordinary requests, small reservations, or large ones."""

    room: int
    """Maximum bytes of all classes together after a reservation of this class is granted."""
    growing: _Queue = field(default_factory=deque)
    """Waiters that already have a reservation. They come first because they return it sooner."""
    new: _Queue = field(default_factory=deque)


class MemoryBudget:
    """Reserves at most `limit` bytes. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._requests = _Class(limit)
        self._small = _Class(int(limit * _SMALL_SHARE))
        self._large = _Class(int(limit * _LARGE_SHARE))

    def take(self, size: int) -> bool:
        """Reserve `size` bytes if there is room now and no other reservation of their class waits."""
        one = self._class_of(size)
        if one.growing or one.new or self.used + size > one.room:
            return False
        self.used += size
        return True

    async def reserve(self, size: int, seconds: float = _WAIT_SECONDS) -> None:
        """Reserve `size` bytes, in order of arrival. Raises `MemoryFull` after `seconds`, and `TooLargeForMemory`."""
        one = self._class_of(size)
        if size > one.room:
            raise TooLargeForMemory(size, one.room)
        if not self.take(size):
            await self._wait(one.new, size, seconds)

    def extend(self, size: int) -> bool:
        """Reserve more for a holder of a reservation, ahead of all waiters, if there is room now."""
        if self.used + size > self.limit:
            return False
        self.used += size
        return True

    async def grow(self, size: int, total: int, seconds: float) -> None:
        """Reserve `size` more bytes for a holder that then has `total`, ahead of waiters without a reservation.

        Raises `MemoryFull` after `seconds`. Two holders that wait for more would wait for each other: the first that
        fails must return its reservation, which is then granted to the other.
        """
        one = self._small if total <= SMALL else self._large
        if one.growing or self.used + size > one.room:
            await self._wait(one.growing, size, seconds)
        else:
            self.used += size

    def add(self, size: int) -> None:
        """Count bytes that are buffered already, whether there is room for them or not."""
        self.used += size

    def release(self, size: int) -> None:
        """Release `size` bytes that were reserved or added, and admit waiters for which there is room now."""
        self.used -= size
        self._admit()

    async def _wait(self, queue: _Queue, size: int, seconds: float) -> None:
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
                self._admit()  # the waiters behind it may need less
            if isinstance(exc, TimeoutError):
                raise MemoryFull(self.limit) from exc
            raise

    def _admit(self) -> None:
        for one in (self._requests, self._small, self._large):
            for queue in (one.growing, one.new):
                while queue and self.used + queue[0][1] <= one.room:
                    granted, size = queue.popleft()
                    if not granted.done():  # otherwise it is being cancelled and has not left the queue yet
                        self.used += size
                        granted.set_result(None)
                if queue:
                    break

    def _class_of(self, size: int) -> _Class:
        if size <= _REQUEST:
            return self._requests
        return self._small if size <= SMALL else self._large


class RequestMemory:
    """The memory that a request reserves in addition to its body, for stored data that it reads, until it ends.

    Without a budget, nothing is counted.
    """

    def __init__(self, memory: MemoryBudget | None = None) -> None:
        self._memory = memory
        self._reserved = 0

    def take(self, size: int) -> None:
        """Reserve `size` bytes. Raises `MemoryFull` if there is no room now: its body is already in memory."""
        if self._memory is None:
            return
        if not self._memory.extend(size):
            raise MemoryFull(self._memory.limit)
        self._reserved += size

    def release(self) -> None:
        """Return the whole reservation."""
        if self._memory is not None and self._reserved:
            self._memory.release(self._reserved)
            self._reserved = 0


class ResponseMemory:
    """The reservation for the response to one request, until it is released or the block ends.

    For a response that is assembled before it is sent, all chunks count; for others, only the chunk being sent.
    """

    def __init__(self, memory: MemoryBudget | None) -> None:
        self._memory = memory
        self._reserved = 0
        self._size = BufferedSize()

    def __enter__(self) -> ResponseMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Return the whole reservation: the next chunk is the first of another response."""
        self._shrink_to(0)
        self._size = BufferedSize()

    async def add(self, chunk: Chunk, *, is_kept: bool = True) -> None:
        """Reserve memory for one more chunk. While there is no room, nothing is read from the model server.

        Raises `MemoryFull` after ten seconds.
        """
        size = self._size.total
        if chunk.pending_bytes:
            size += _COPIES * chunk.pending_bytes  # reserved before it is parsed: afterwards it is there already
        elif is_kept:
            self._size.add(chunk)
            size = self._size.total + (0 if chunk.as_sent is None else len(chunk.as_sent))
        else:
            size += _COPIES * measure_text(chunk)
        if size - self._reserved > _STEP:
            await self._grow_to(size + -size % _STEP)
        elif self._reserved - size > _STEP:
            self._shrink_to(size + -size % _STEP)

    async def _grow_to(self, size: int) -> None:
        if self._memory is not None:
            await self._memory.grow(size - self._reserved, size, _RESPONSE_WAIT_SECONDS)
            self._reserved = size

    def _shrink_to(self, size: int) -> None:
        if self._memory is not None and self._reserved > size:
            self._memory.release(self._reserved - size)
            self._reserved = size
