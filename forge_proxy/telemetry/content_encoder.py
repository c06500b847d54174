"""Encodes the texts of finished requests in a thread, for the request store. No request waits for it.

What is too much is dropped and counted, never the record of a request: more texts than can be encoded, more than wait
in memory while the store cannot be used, and requests that are too large.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from structlog.typing import FilteringBoundLogger

from forge_proxy.core.requests.content import AttemptContent, RequestContent
from forge_proxy.core.requests.records import RequestRecord
from forge_proxy.wire.request_content import MAX_CONTENT, EncodedContent, encode_content

_MAX_UNENCODED = 256
"""Texts that wait for the thread; it takes a millisecond for most."""
_MAX_LARGE = 8
"""Those among them whose request has more than a megabyte."""
_MAX_ENCODED = 64 * 2**20
"""Bytes of encoded texts in memory."""
_AT_ONCE = 32
"""Texts that the thread encodes before the event loop hears of it."""

ContentResult: TypeAlias = Literal["stored", "cut", "too_large", "dropped"]
"""The outcome of a text: stored; stored with its long parts cut; too large even then; dropped from a full queue."""


class WaitingContent:
    """The text of one request on its way into the store."""

    def __init__(self, content: RequestContent) -> None:
        self.raw: RequestContent | None = content
        """None once it is encoded or dropped."""
        self.encoded: EncodedContent | None = None

    @property
    def is_large(self) -> bool:
        """Whether encoding it takes long."""
        return self.raw is not None and self.raw.request.is_large

    @property
    def size(self) -> int:
        """Bytes that it takes in memory once it is encoded."""
        return len(self.encoded.data) if self.encoded is not None else 0


class ContentEncoder:
    """An observer of contents. `take` returns the text of a record to the writer, which stores both."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._count: Callable[[ContentResult], None] = _count_nothing
        self._by_record: dict[int, WaitingContent] = {}
        """Texts whose event has not arrived yet, by the identity of their record."""
        self._unencoded: deque[WaitingContent] = deque()
        self._encoded: deque[WaitingContent] = deque()
        self._size = 0
        self._has_work = asyncio.Event()
        self._progress = asyncio.Event()
        """Set, and replaced, whenever the thread has encoded some."""
        self._is_reported = False

    def set_counter(self, count: Callable[[ContentResult], None]) -> None:
        """Report the outcome of later texts."""
        self._count = count

    def __call__(self, content: AttemptContent | RequestContent, /) -> None:
        """See `engine.ports.ContentObserver`."""
        if isinstance(content, AttemptContent):
            return
        waiting = WaitingContent(content)
        has_room = not waiting.is_large or sum(one.is_large for one in self._unencoded) < _MAX_LARGE
        if len(self._unencoded) >= _MAX_UNENCODED or not has_room:
            self._drop("dropped", content.record)
            return
        self._by_record[id(content.record)] = waiting
        self._unencoded.append(waiting)
        self._has_work.set()

    def take(self, record: RequestRecord) -> WaitingContent | None:
        """Return the text of a finished request, which may not be encoded yet; None if there is none."""
        return self._by_record.pop(id(record), None)

    def release(self, waiting: WaitingContent, *, is_stored: bool) -> None:
        """Forget a text that was stored, or whose record was dropped."""
        if waiting.encoded is not None:
            self._count("dropped" if not is_stored else "cut" if waiting.encoded.is_cut else "stored")
            self._forget(waiting)
        elif waiting.raw is not None:
            self._count("dropped")
        waiting.raw = None

    async def wait_until_encoded(self, contents: Sequence[WaitingContent]) -> None:
        """Return when none of these texts waits for the thread."""
        while any(one.raw is not None for one in contents):
            await self._progress.wait()

    async def run(self) -> None:
        """Encode what arrives until it is cancelled."""
        while True:
            await self._has_work.wait()
            batch = [self._unencoded.popleft() for _ in range(min(_AT_ONCE, len(self._unencoded)))]
            for waiting, encoded in zip(batch, await self._encode(batch), strict=True):
                self._add(waiting, encoded)
            del batch
            if not self._unencoded:
                self._has_work.clear()
            self._progress.set()
            self._progress = asyncio.Event()

    async def _encode(self, batch: Sequence[WaitingContent]) -> Sequence[EncodedContent | None]:
        raw = [one.raw for one in batch]
        try:
            return await asyncio.to_thread(_encode_all, raw)
        except Exception:  # noqa: BLE001  # later texts are stored all the same
            self._log.exception("text of a request not stored", count=len(batch))
            return [None] * len(batch)

    def _add(self, waiting: WaitingContent, encoded: EncodedContent | None) -> None:
        content, waiting.raw = waiting.raw, None
        if content is None:  # its record was dropped meanwhile
            return
        if encoded is None:
            self._drop("too_large", content.record)
            return
        waiting.encoded = encoded
        self._encoded.append(waiting)
        self._size += waiting.size
        while self._size > _MAX_ENCODED:
            self._count("dropped")
            self._forget(self._encoded[0])

    def _forget(self, waiting: WaitingContent) -> None:
        self._size -= waiting.size
        waiting.encoded = None
        self._encoded.remove(waiting)

    def _drop(self, result: Literal["dropped", "too_large"], record: RequestRecord) -> None:
        self._count(result)
        if not self._is_reported:
            self._is_reported = True
            reason = f"more than {MAX_CONTENT} characters" if result == "too_large" else "too many at a time"
            self._log.warning(
                "text of a request not stored", request_id=record.request_id, reason=reason,
                note="later ones are only counted: forge_request_contents_total",
            )  # fmt: skip


def _count_nothing(_: ContentResult) -> None:
    """Do nothing: the results are not counted."""


def _encode_all(contents: list[RequestContent | None]) -> list[EncodedContent | None]:
    return [encode_content(content) if content is not None else None for content in contents]
