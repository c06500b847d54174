"""Detects the format of a response body by its first bytes, and estimates the memory that buffered parts take.

This belongs in `wire` because the readers of all backend protocols use it.
"""

from __future__ import annotations

from typing import Literal

import orjson

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.sse import BOM

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""Prefixes of the lines of an event stream."""
_SPACE = b" \t\r\n"
_LARGE = 1024 * 1024
"""Events of fewer bytes are not examined by `estimate_parsed_size`."""
_PENDING_STEP = 256 * 1024
_OBJECT, _ITEM = 200, 60
"""Memory in bytes of an object or array, and of an item in it, in addition to the text."""
_CHOICE, _CALL, _FIELD = 2_000, 1_000, 200
"""Memory in bytes of a choice, a call and any other field while they are assembled, in addition to the text."""


def detect_format(body: bytes | bytearray) -> Literal["events", "json", "other"] | None:
    """Return the format of a body from its beginning; None if more bytes are needed. Skips leading white space."""
    start = bytes(body[:64]).removeprefix(BOM).lstrip(_SPACE)
    if not start or BOM.startswith(start):
        return None
    if start[:1] in (b"{", b"["):
        return "json"
    if start.startswith(_FIELDS):
        return "events"
    return None if any(field.startswith(start) for field in _FIELDS) else "other"


def strip_start(body: bytearray) -> None:
    """Remove a byte order mark and white space from the beginning of a body, in place."""
    if body.startswith(BOM):
        del body[: len(BOM)]
    del body[: len(body) - len(body.lstrip(_SPACE))]


def estimate_parsed_size(event: bytes) -> int:
    """Estimate the memory in bytes of a large event once it is parsed; 0 for a small one.

    `[[],[],[]…` takes twenty times its size.
    """
    if len(event) < _LARGE:
        return 0
    return len(event) + _OBJECT * (event.count(b"{") + event.count(b"[")) + _ITEM * event.count(b",")


def is_out_of_memory(exc: orjson.JSONDecodeError) -> bool:
    """Return whether orjson ran out of memory: it raises the same exception type for invalid JSON."""
    return exc.msg.startswith("Not enough memory")


class PendingSize:
    """Reports the bytes that a reader has buffered of an incomplete event or body, for the memory budget."""

    def __init__(self) -> None:
        self._reported = 0

    def report(self, size: int) -> list[Chunk]:
        """Return a chunk each time another 256 KiB are buffered, else an empty list."""
        if size < self._reported:
            self._reported = 0
        if size < self._reported + _PENDING_STEP:
            return []
        self._reported = size
        return [Chunk(pending_bytes=size)]


def measure_text(chunk: Chunk) -> int:
    """Return the length of a chunk's text, reasoning and arguments; that of its JSON text if it is forwarded."""
    if chunk.as_sent is not None:
        return len(chunk.as_sent)
    size = 0
    for delta in chunk.deltas:
        size += len(delta.text or "") + len(delta.reasoning or "")
        for call in delta.calls:
            size += len(call.arguments)
    return size


class BufferedSize:
    """Estimates the memory in bytes of a response that is assembled from chunks (`total`)."""

    def __init__(self) -> None:
        self.total = 0
        self._known: set[tuple[int, int | None]] = set()
        """The choices and calls seen."""
        self._names: set[str] = set()
        """The names of other fields seen."""

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        size = 0
        for delta in chunk.deltas:
            if delta.text:
                size += len(delta.text)
            if delta.reasoning:
                size += len(delta.reasoning)
            for call in delta.calls:
                size += len(call.arguments) + len(call.name) + len(call.id)
                size += self._cost(_CALL, delta.choice, call.index)
            size += self._cost(_CHOICE, delta.choice)
            if delta.extra:
                size += _json_size(delta.extra)
            if delta.choice_fields:
                size += _json_size(delta.choice_fields)
            if delta.logprobs is not None:
                size += sum(len(items) for items in delta.logprobs.lists.values() if items)
        for name in chunk.head:
            if name not in self._names:
                self._names.add(name)
                size += _FIELD + _json_size({name: chunk.head[name]})
        self.total += size

    def _cost(self, cost: int, choice: int, call: int | None = None) -> int:
        if (choice, call) in self._known:
            return 0
        self._known.add((choice, call))
        return cost


def _json_size(fields: JsonObject) -> int:
    try:
        return len(orjson.dumps(fields))
    except TypeError:  # nested too deeply to be serialized: forwarded verbatim, and counted as a body
        return 0
