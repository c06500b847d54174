"""Stores the records of calls of tasks, beside the tasks (D42)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from forge_proxy.core.tasks.call_record import TaskCallRecord
from forge_proxy.telemetry.bounded_writer import BoundedWriter, WriterEvents

_MAX_WAITING = 2000
"""Records that wait in memory, each some 500 bytes."""
_EVENTS = WriterEvents("task calls not stored", "task calls stored again")


class TaskCallStore(Protocol):
    """Where records are stored. Every method raises `StoreUnavailable`."""

    async def put(self, records: Sequence[TaskCallRecord]) -> None:
        """Store records, each in place of an earlier one of the same call; not those of tasks that were deleted."""
        ...

    async def list(self, task_id: str) -> Sequence[TaskCallRecord]:
        """Return the records of a task, oldest first."""
        ...


class TaskCallWriter(BoundedWriter[TaskCallRecord]):
    """`tasks.ports.CallLog`: records calls, and reads them again."""

    def __init__(self, open_store: Callable[[], Awaitable[TaskCallStore]], log: FilteringBoundLogger) -> None:
        super().__init__(_MAX_WAITING, _EVENTS, log)
        self._open_store = open_store

    async def store(self, batch: Sequence[TaskCallRecord]) -> None:
        """See the base class."""
        await (await self._open_store()).put(batch)

    def record(self, call: TaskCallRecord) -> None:
        """See `CallLog`."""
        self.append(call)

    async def list(self, task_id: str) -> Sequence[TaskCallRecord]:
        """See `CallLog`. Records that wait are read from memory."""
        stored = {(one.round, one.part): one for one in await (await self._open_store()).list(task_id)}
        stored |= {(one.round, one.part): one for one in [*self._waiting] if one.task_id == task_id}
        return [stored[key] for key in sorted(stored)]
