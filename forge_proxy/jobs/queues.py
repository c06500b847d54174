"""Queues: each bounds how many phases run at a time. Phases run in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from forge_proxy.jobs.cancellation import run_cancellable
from forge_proxy.jobs.ports import QueueStatus

_DEFAULT_LIMIT = 4


@dataclass
class _Queue:
    """A queue. `limit` is read when a phase comes or ends: it may change."""

    limit: Callable[[], int]
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])

    async def acquire(self) -> None:
        """Wait for a slot."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        self.admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            elif turn in self.waiting:
                self.waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.running -= 1
        self.admit()

    def admit(self) -> None:
        """Let as many phases run as there are slots."""
        limit = self.limit()
        while self.waiting and self.running < limit:
            turn = self.waiting.popleft()
            if not turn.done():  # else its task was cancelled, and has not run since
                self.running += 1
                turn.set_result(None)


class JobQueues:
    """The queues of a daemon. `limits` maps their names to the number of phases that may run at a time."""

    def __init__(self, limits: Mapping[str, Callable[[], int]]) -> None:
        self._queues = {name: _Queue(limit) for name, limit in limits.items()}

    @asynccontextmanager
    async def slot(self, name: str, cancel: asyncio.Event) -> AsyncGenerator[None]:
        """Wait for a slot and hold it. Raises `Cancelled` if `cancel` is set before there is one."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue(lambda: _DEFAULT_LIMIT)
        await run_cancellable(cancel, queue.acquire())
        try:
            yield
        finally:
            queue.release()

    def status(self) -> dict[str, QueueStatus]:
        """Return the status of every queue that has been used or configured."""
        return {
            name: QueueStatus(queue.running, len(queue.waiting), queue.limit())
            for name, queue in sorted(self._queues.items())
        }
