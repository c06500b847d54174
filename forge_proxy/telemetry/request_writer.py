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
from forge_proxy.telemetry.bounded_writer import BoundedWriter, WriterEvents
from forge_proxy.telemetry.content_encoder import ContentEncoder, WaitingContent

_MAX_WAITING = 5000
"""Requests that wait in memory, each some 2 kB."""
_BATCH = 500
"""Requests of one transaction."""
_BATCH_BYTES = 4 * 2**20
"""Bytes of texts after which a transaction ends: other writers wait for it."""
_PRUNE_INTERVAL = 3600.0
_PRUNE_BYTES = 16 * 2**20
"""Bytes of texts after which old ones are deleted even within that interval."""
_PRUNE_PAUSE = 0.05
"""Seconds between two transactions that delete, so that other writers get their turn."""
_EVENTS = WriterEvents("requests not stored", "requests stored again")


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


class RequestWriter(BoundedWriter[_Waiting]):
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
        super().__init__(_MAX_WAITING, _EVENTS, log)
        self._open_store = open_store
        self._describe = describe
        self._retention = retention
        self._contents = contents
        self._pruned_at = -_PRUNE_INTERVAL
        self._unpruned = 0
        """Bytes of texts since old ones were deleted."""

    def __call__(self, event: Event, /) -> None:
        """See `engine.ports.Observer`."""
        if isinstance(event, RequestAnswered | RequestFailed | RequestAbandoned):
            ended = EndedRequest(time.time(), event.record, *self._describe(event.record))
            self.append(_Waiting(ended, self._contents.take(event.record) if self._contents else None))

    async def store(self, batch: Sequence[_Waiting]) -> None:
        """Store requests with their texts, which may still have to be encoded."""
        store = await self._open_store()
        if self._contents is not None:
            contents = [one.content for one in batch if one.content is not None]
            await self._contents.wait_until_encoded(contents)
        await store.add([one.with_content() for one in batch])

    def select_batch(self, waiting: deque[_Waiting]) -> list[_Waiting]:
        """See the base class. The texts of requests bound a transaction, too."""
        batch: list[_Waiting] = []
        size = 0
        for one in waiting:
            if len(batch) == _BATCH or size > _BATCH_BYTES:
                break
            batch.append(one)
            size += one.content.size if one.content is not None else 0
        return batch

    def release(self, record: _Waiting, *, is_stored: bool) -> None:
        """See the base class. The memory of its text is free again."""
        if self._contents is not None and record.content is not None:
            self._unpruned += record.content.size if is_stored else 0
            self._contents.release(record.content, is_stored=is_stored)

    async def tidy(self) -> None:
        """Delete what is no longer kept, once an hour or after many bytes."""
        now = time.monotonic()
        if now < self._pruned_at + _PRUNE_INTERVAL and self._unpruned <= _PRUNE_BYTES:
            return
        self._pruned_at, self._unpruned = now, 0
        with suppress(StoreUnavailable):  # the next write reports it
            store = await self._open_store()
            is_more = True
            while is_more:
                is_more = await store.prune(self._retention, time.time())
                await asyncio.sleep(_PRUNE_PAUSE)
