"""Queues: each bounds how many phases run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from forge_proxy.jobs.cancellation import acquire_cancellable
from forge_proxy.jobs.ports import QueueStatus

_DEFAULT_LIMIT = 4


class JobQueues:
    """The queues of a daemon. `limits` maps their names to the number of phases that may run at a time."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = dict(limits)
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._running: dict[str, int] = {}
        self._waiting: dict[str, int] = {}

    @asynccontextmanager
    async def slot(self, queue: str, cancel: asyncio.Event) -> AsyncGenerator[None]:
        """Wait for a slot and hold it. Raises `Cancelled` if `cancel` is set before there is one."""
        slots = self._slots.get(queue)
        if slots is None:
            slots = self._slots[queue] = asyncio.Semaphore(self._limit(queue))
        self._waiting[queue] = self._waiting.get(queue, 0) + 1
        try:
            await acquire_cancellable(slots, cancel)
        finally:
            self._waiting[queue] -= 1
        self._running[queue] = self._running.get(queue, 0) + 1
        try:
            yield
        finally:
            self._running[queue] -= 1
            slots.release()

    def status(self) -> dict[str, QueueStatus]:
        """Return the status of every queue that has been used or configured."""
        names = sorted({*self._limits, *self._slots})
        return {
            name: QueueStatus(self._running.get(name, 0), self._waiting.get(name, 0), self._limit(name))
            for name in names
        }

    def _limit(self, queue: str) -> int:
        return self._limits.get(queue, _DEFAULT_LIMIT)
