"""Writes finished requests to the store, after their responses: no request waits for it, and none fails because of it.

Requests wait in memory while the store is locked, full or broken; once there are too many, the oldest are dropped and
counted. Their texts are encoded by `content_encoder.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from forge_proxy.core.requests.records import RequestRecord
from forge_proxy.core.requests.stored import EndedRequest, RequestRetention
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.engine.events import Event, RequestAbandoned, RequestAnswered, RequestFailed
from forge_proxy.telemetry.content_encoder import ContentEncoder, WaitingContent

_MAX_WAITING = 5000
"""Requests that wait in memory, each some 2 kB."""
_BATCH = 500
"""Requests of one transaction."""
_BATCH_BYTES = 4 * 2**20
"""Bytes of texts after which a transaction ends: other writers wait for it."""
_INTERVAL = 0.5
"""Seconds in which requests are collected for one transaction."""
_FIRST_PAUSE = 1.0
"""Seconds until the first attempt after the store was unavailable; each later pause is twice as long."""
_MAX_PAUSE = 60.0
"""Longest such pause in seconds."""
_PRUNE_INTERVAL = 3600.0
_PRUNE_BYTES = 16 * 2**20
"""Bytes of texts after which old ones are deleted even within that interval."""
_PRUNE_PAUSE = 0.05
"""Seconds between two transactions that delete, so that other writers get their turn."""
_CLOSE_SECONDS = 2.0
"""How long the end of the daemon waits for the last requests to be written."""


class RequestStore(Protocol):
    """Where requests are stored. Every method raises `StoreUnavailable`."""

    async def add(self, ended: Sequence[EndedRequest]) -> None:
        """Store requests and add them to the ledger, all of them or none."""
        ...

    async def prune(self, retention: RequestRetention, now: float) -> bool:
        """Delete some of what is no longer kept. Returns whether there is more."""
        ...


class _Waiting(NamedTuple):
    """A request that is not stored yet."""

    ended: EndedRequest
    content: WaitingContent | None

    def with_content(self) -> EndedRequest:
        encoded = self.content.encoded if self.content is not None else None
        return replace(self.ended, content=encoded.data) if encoded is not None else self.ended


class RequestWriter:
    """A listener of events that stores the records of finished requests."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[RequestStore]],
        describe: Callable[[RequestRecord], tuple[str, str]],
        retention: RequestRetention,
        log: FilteringBoundLogger,
        contents: ContentEncoder | None = None,
    ) -> None:
        """`describe` returns the model under which a request is counted, and its quantization.

        `contents` has the texts of the requests, if they are stored.
        """
        self._open_store = open_store
        self._describe = describe
        self._retention = retention
        self._log = log
        self._contents = contents
        self._waiting: deque[_Waiting] = deque()
        self._has_work = asyncio.Event()
        self._is_closing = False
        self._is_failing = False
        self._pruned_at = -_PRUNE_INTERVAL
        self._unpruned = 0
        """Bytes of texts since old ones were deleted."""
        self.dropped = 0
        """Requests that were not stored."""

    def __call__(self, event: Event, /) -> None:
        """See `engine.ports.Observer`."""
        if isinstance(event, RequestAnswered | RequestFailed | RequestAbandoned):
            if len(self._waiting) >= _MAX_WAITING:
                self._release(self._waiting.popleft(), is_stored=False)
                self.dropped += 1
            ended = EndedRequest(time.time(), event.record, *self._describe(event.record))
            self._waiting.append(_Waiting(ended, self._contents.take(event.record) if self._contents else None))
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
                await self._prune()

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
            self._log.warning("requests not stored", count=len(self._waiting), reason="the daemon ends")

    async def _write(self) -> None:
        """Write all that waits. What is not written stays."""
        if not self._waiting:  # the daemon ends
            return
        store = await self._open_store()
        while self._waiting:
            batch, dropped = self._next_batch(), self.dropped
            if self._contents is not None:
                contents = [one.content for one in batch if one.content is not None]
                await self._contents.wait_until_encoded(contents)
            is_stored = False
            try:
                await store.add([one.with_content() for one in batch])
                is_stored = True
            except StoreUnavailable:
                raise
            except Exception:  # noqa: BLE001  # what no database accepts would otherwise block all later requests
                self._log.exception("requests not stored", count=len(batch))
                self.dropped += len(batch)
                dropped += len(batch)
            for _ in range(len(batch) - (self.dropped - dropped)):  # some may have been dropped meanwhile
                self._release(self._waiting.popleft(), is_stored=is_stored)
        self._has_work.clear()
        if self._is_failing:
            self._is_failing = False
            self._log.info("requests stored again", dropped=self.dropped)

    def _next_batch(self) -> list[_Waiting]:
        """Return the first of the waiting requests: as many as one transaction may write."""
        batch: list[_Waiting] = []
        size = 0
        for one in self._waiting:
            if len(batch) == _BATCH or size > _BATCH_BYTES:
                break
            batch.append(one)
            size += one.content.size if one.content is not None else 0
        return batch

    def _release(self, waiting: _Waiting, *, is_stored: bool) -> None:
        if self._contents is not None and waiting.content is not None:
            self._unpruned += waiting.content.size if is_stored else 0
            self._contents.release(waiting.content, is_stored=is_stored)

    async def _prune(self) -> None:
        now = time.monotonic()
        is_due = now >= self._pruned_at + _PRUNE_INTERVAL or self._unpruned > _PRUNE_BYTES
        if self._is_closing or not is_due:
            return
        self._pruned_at, self._unpruned = now, 0
        with suppress(StoreUnavailable):  # the next write reports it
            store = await self._open_store()
            is_more = True
            while is_more:
                is_more = await store.prune(self._retention, time.time())
                await asyncio.sleep(_PRUNE_PAUSE)

    def _report(self, error: StoreUnavailable) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log.warning("requests not stored", error=error.summary, waiting=len(self._waiting))
