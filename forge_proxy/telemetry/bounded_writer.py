"""Writes records to the store beside the work that they describe: no work waits for it or fails because of it.

Records wait in memory while the store is locked, full or broken; once there are too many, the oldest are dropped and
counted.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from forge_proxy.core.store_errors import StoreUnavailable

T = TypeVar("T")
_BATCH = 500
"""Records of one transaction."""
_INTERVAL = 1.0
"""Seconds in which records are collected for one transaction."""
_FIRST_PAUSE = 1.0
"""Seconds until the first attempt after the store was unavailable; each later pause is twice as long."""
_MAX_PAUSE = 60.0
"""Longest such pause in seconds."""
_CLOSE_SECONDS = 2.0
"""How long the end of the daemon waits for the last records to be written."""


@dataclass(frozen=True, slots=True)
class WriterEvents:
    """The names of the log events of a writer."""

    not_stored: str
    stored_again: str


class BoundedWriter(ABC, Generic[T]):
    """Records that wait to be written. A subclass stores them."""

    def __init__(self, max_waiting: int, events: WriterEvents, log: FilteringBoundLogger) -> None:
        self._max_waiting = max_waiting
        self._events = events
        self._log = log
        self._waiting: deque[T] = deque()
        self._has_work = asyncio.Event()
        self._is_closing = False
        self._is_failing = False
        self.dropped = 0
        """Records that were not stored."""

    @property
    def waiting(self) -> int:
        """The number of records that are not written yet."""
        return len(self._waiting)

    @abstractmethod
    async def store(self, batch: Sequence[T]) -> None:
        """Store records, all of them or none. Raises `StoreUnavailable`."""

    def select_batch(self, waiting: deque[T]) -> list[T]:
        """Return the first of the waiting records: as many as one transaction may write."""
        return [*islice(waiting, _BATCH)]

    def release(self, record: T, *, is_stored: bool) -> None:
        """Release a record that waits no longer."""

    async def tidy(self) -> None:
        """Finish once everything is written, for example by deleting expired records."""

    def append(self, record: T) -> None:
        """Have a record written. Never waits, and never fails."""
        if len(self._waiting) >= self._max_waiting:
            self.release(self._waiting.popleft(), is_stored=False)
            self.dropped += 1
        self._waiting.append(record)
        self._has_work.set()

    async def run(self) -> None:
        """Write until `close` is called and everything is written."""
        pause = _FIRST_PAUSE
        while not self._is_closing or self._waiting:
            await self._has_work.wait()
            if not self._is_closing:
                await asyncio.sleep(_INTERVAL)
            try:
                await self._write()
            except StoreUnavailable as error:
                self._report(error)
                if self._is_closing:
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
            else:
                pause = _FIRST_PAUSE
                if not self._is_closing:
                    await self.tidy()

    async def close(self, running: asyncio.Task[None]) -> None:
        """Write what waits, for two seconds at most, and end `running`, the task of `run`."""
        self._is_closing = True
        self._has_work.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.wait([running])
        running.cancel()
        await asyncio.wait([running])
        if self._waiting:
            self._log.warning(self._events.not_stored, count=len(self._waiting), reason="the daemon ends")

    async def _write(self) -> None:
        """Write all waiting records. Records that could not be written are kept."""
        while self._waiting:
            batch, dropped = self.select_batch(self._waiting), self.dropped
            is_stored = False
            try:
                await self.store(batch)
                is_stored = True
            except StoreUnavailable:
                raise
            except Exception:  # noqa: BLE001  # what no database accepts would otherwise block all later records
                self._log.exception(self._events.not_stored, count=len(batch))
                self.dropped += len(batch)
                dropped += len(batch)
            for _ in range(len(batch) - (self.dropped - dropped)):  # some may have been dropped meanwhile
                self.release(self._waiting.popleft(), is_stored=is_stored)
        self._has_work.clear()
        if self._is_failing:
            self._is_failing = False
            self._log.info(self._events.stored_again, dropped=self.dropped)

    def _report(self, error: StoreUnavailable) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log.warning(self._events.not_stored, error=error.summary, waiting=len(self._waiting))
