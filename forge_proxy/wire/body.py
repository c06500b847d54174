"""What a response body is, by its first bytes, and what of it is held.

This belongs in `wire` because every dialect's reader asks it; it reads no dialect itself.
"""

from __future__ import annotations

from typing import Literal

import orjson

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.sse import BOM

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""With what the lines of an event stream begin."""
_SPACE = b" \t\r\n"
_LARGE = 1024 * 1024
"""Bytes of an event beyond which it is counted what it takes once it is parsed."""
_PENDING_STEP = 256 * 1024
_OBJECT, _ITEM = 200, 60
"""Bytes that an object or array, and an item of one, take in Python beside their text."""
_CHOICE, _CALL, _FIELD = 2_000, 1_000, 200
"""Bytes that putting together a choice, a call or another field takes beside its text."""


def form_of(body: bytes | bytearray) -> Literal["events", "json", "other"] | None:
    """What a body is that begins like this; None while nothing can be said. White space before it is passed over."""
    start = bytes(body[:64]).removeprefix(BOM).lstrip(_SPACE)
    if not start or BOM.startswith(start):
        return None
    if start[:1] in (b"{", b"["):
        return "json"
    if start.startswith(_FIELDS):
        return "events"
    return None if any(field.startswith(start) for field in _FIELDS) else "other"


def strip_start(body: bytearray) -> None:
    """Drop the mark and the white space with which a body begins, in place."""
    if body.startswith(BOM):
        del body[: len(BOM)]
    del body[: len(body) - len(body.lstrip(_SPACE))]


def would_take(event: bytes) -> int:
    """About how many bytes an event takes once it is parsed, if that may be many: of `[[],[],[]…` twenty times as many
    as it has.
    """
    if len(event) < _LARGE:
        return 0
    return len(event) + _OBJECT * (event.count(b"{") + event.count(b"[")) + _ITEM * event.count(b",")


def is_out_of_memory(exc: orjson.JSONDecodeError) -> bool:
    """Whether memory was short, and the text may be JSON: orjson raises the same error for both."""
    return exc.msg.startswith("Not enough memory")


class PendingSize:
    """Reports what a reader buffers of an event or body whose end has not come, for those who account for memory."""

    def __init__(self) -> None:
        self._reported = 0

    def report(self, size: int) -> list[Chunk]:
        """A chunk each time that another quarter of a megabyte is buffered."""
        if size < self._reported:
            self._reported = 0
        if size < self._reported + _PENDING_STEP:
            return []
        self._reported = size
        return [Chunk(pending_bytes=size)]


class BufferedSize:
    """Counts the bytes that are held of a response whose chunks are put together."""

    def __init__(self) -> None:
        self.bytes = 0
        self._known: set[tuple[int, int | None]] = set()
        """The choices and calls so far."""
        self._names: set[str] = set()
        """Names of the other fields so far."""

    def add(self, chunk: Chunk) -> None:
        """Count one more chunk."""
        size = 0
        for delta in chunk.deltas:
            if delta.text:
                size += len(delta.text)
            if delta.reasoning:
                size += len(delta.reasoning)
            for call in delta.calls:
                size += len(call.arguments) + len(call.name) + len(call.id)
                size += self._new(_CALL, delta.choice, call.index)
            size += self._new(_CHOICE, delta.choice)
            if delta.extra:
                size += _written(delta.extra)
            if delta.choice_fields:
                size += _written(delta.choice_fields)
        for name in chunk.head:
            if name not in self._names:
                self._names.add(name)
                size += _FIELD + _written({name: chunk.head[name]})
        self.bytes += size

    def _new(self, cost: int, choice: int, call: int | None = None) -> int:
        if (choice, call) in self._known:
            return 0
        self._known.add((choice, call))
        return cost


def _written(fields: JsonObject) -> int:
    try:
        return len(orjson.dumps(fields))
    except TypeError:  # nested too deeply to be written: passed on as it came, and counted as a body
        return 0
