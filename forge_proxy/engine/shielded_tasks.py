"""Runs a change to its end even if the client that requested it disconnects.

A model server completes a switch that it has begun, so the daemon must not stop halfway through it. Nothing here ends
a task: what it waits for has its own time limits, and fails when the model server is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class ShieldedTasks:
    """Owns the tasks of changes in progress."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, change: Coroutine[Any, Any, _T]) -> _T:
        """Await a change. Cancelling this call does not cancel the change, which then continues in the background."""
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def close(self, seconds: float) -> None:
        """Wait for the changes in progress, and cancel those that take longer."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
