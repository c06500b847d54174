"""Decodes the common parts of all model servers' responses: JSON objects, errors, streams of events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

import orjson

from forge_proxy.core.errors import OutOfMemory
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.body import (
    BufferedSize,
    PendingSize,
    detect_format,
    estimate_parsed_size,
    is_out_of_memory,
    strip_start,
)
from forge_proxy.wire.sse import MAX_RESPONSE, SseReader, TooLarge


class UnreadableResponse(ValueError):
    """A response is neither a chunk nor a completion. `error` is the server's error object, if it sent one."""

    def __init__(self, why: str, error: Json = None) -> None:
        super().__init__(why)
        self.error = error


class NestedTooDeeply(UnreadableResponse):
    """JSON that can be parsed but is nested too deeply to be serialized."""


_Fault = TypeVar("_Fault", bound=Exception)


def without_traceback(fault: _Fault) -> _Fault:
    """Return a fault for a reader to keep. Its traceback refers to the reader, so both, and the response in it, would
    stay in memory until the next garbage collection.
    """
    fault.__cause__ = fault.__context__ = None
    return fault.with_traceback(None)


_SHALLOW = 100
"""Nesting depth that can always be serialized."""
_ADDED = 16
"""Levels that encoding the response for another protocol may add."""


def parse_response(raw: bytes, *, verbatim: bool = False) -> dict[str, Json]:
    """Parse a response or an event as a JSON object.

    Raises `OutOfMemory`; `UnreadableResponse`, also if the object is an error; `NestedTooDeeply` if it could not be
    serialized again, unless it is forwarded `verbatim`.
    """
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise _explain_unreadable(raw, exc) from exc
    if not verbatim and raw.count(b"{") + raw.count(b"[") > _SHALLOW:
        _check_depth(value)
    if not is_object(value):
        raise UnreadableResponse("not a JSON object")
    if value.get("error"):
        raise UnreadableResponse("an error instead of a response", value)
    if value.get("object") == "error":  # vLLM's format, also used in streams
        raise UnreadableResponse("an error instead of a response", {"error": value})
    return value


def _explain_unreadable(raw: bytes, exc: orjson.JSONDecodeError) -> UnreadableResponse:
    start = raw[:64].strip().lower()
    if "limit" in exc.msg:  # "recursion limit" or "depth limit", depending on the version
        return NestedTooDeeply("nested too deeply")
    if is_out_of_memory(exc):
        raise OutOfMemory("the model server's response") from exc
    if not start:
        return UnreadableResponse("the response is empty")
    if start.startswith((b"<!doctype html", b"<html")):
        return UnreadableResponse("an HTML page instead of JSON")
    return UnreadableResponse(f"not JSON: {exc}")


def _check_depth(value: Json) -> None:
    """Raise `NestedTooDeeply` for a value that orjson parses (1,024 levels) but does not serialize (254)."""
    for _ in range(_ADDED):
        value = [value]
    dump_json(value)


def dump_json(value: Json) -> str:
    """Serialize a JSON value. Raises `NestedTooDeeply`."""
    try:
        return orjson.dumps(value).decode()
    except TypeError as exc:
        raise NestedTooDeeply("nested too deeply") from exc


_BETWEEN_EVENTS = b"\n\ndata: "


def split_events(as_sent: bytes) -> list[bytes]:
    """Return the events of a chunk's `as_sent`: those of chunks that arrived together were joined."""
    return as_sent.split(_BETWEEN_EVENTS)


def join_chunks(chunks: list[Chunk]) -> Chunk:
    """Join chunks that arrived together."""
    head: dict[str, Json] = {}
    for chunk in chunks:
        head.update(chunk.head)
    usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), None)
    sent = [chunk.as_sent for chunk in chunks if chunk.as_sent is not None]
    return Chunk(
        deltas=tuple(delta for chunk in chunks for delta in chunk.deltas),
        usage=usage,
        head=head,
        as_sent=_BETWEEN_EVENTS.join(sent) if sent else None,
    )


class EventReader(ABC):
    """Takes the bytes of a response body and returns its chunks. Subclasses decode the events of a protocol.

    The first bytes decide whether the body is an event stream or one JSON object, because servers and reverse proxies
    send a wrong `Content-Type`. `declared_events` (an event stream according to that header) decides if the bytes
    could be either.

    `limit` is the maximum number of bytes of an incomplete event and of a whole body; if the response is `buffered`,
    also of all chunks together.
    """

    def __init__(self, *, limit: int = MAX_RESPONSE, buffered: bool = False, declared_events: bool = True) -> None:
        self.has_begun = False
        """Whether an event of the response has been read."""
        self.has_finish_reason = False
        """Whether a finish reason has been read: the content is complete."""
        self.is_done = False
        """Whether the last event has been read."""
        self.fault: UnreadableResponse | TooLarge | None = None
        """Why decoding stopped; the chunks before it have been returned."""
        self.is_whole = False
        """Whether the body is one JSON object. Set before the first chunk is returned."""
        self._limit = limit
        self._size = BufferedSize() if buffered else None
        self._declared_events = declared_events
        self._events = SseReader(limit)
        self._pending = PendingSize()
        self._is_events = False
        self._body = bytearray()
        """The bytes received, unless the body is an event stream."""

    def feed(self, piece: bytes) -> list[Chunk]:
        """Return the chunks that `piece` completes, joined to one where possible."""
        if not self._is_events:
            piece = self._detect(piece)
            if not self._is_events:
                return self._pending.report(len(self._body))
        try:
            events = self._events.feed(piece)
            if not events:
                return self._pending.report(self._events.pending_bytes)
            return self._count_chunks(self._read(self._check_sizes(events)))
        except TooLarge as exc:
            self.fault = without_traceback(exc)
            return []

    def end(self) -> list[Chunk]:
        """Return the chunks that the end of the body completes."""
        if self.fault is not None:
            return []
        try:
            if self._is_events:
                last = self._events.end()
                return self._count_chunks(self._read(self._check_sizes([last]))) if last is not None else []
            self.is_whole = True
            return self._count_chunks(self._read_whole(*self._check_sizes([bytes(self._body)])))
        except (TooLarge, UnreadableResponse) as exc:
            self.fault = without_traceback(exc)
            return []

    def _detect(self, piece: bytes) -> bytes:
        """Add bytes to the body and detect its format. Returns the body if it is an event stream, else nothing."""
        body = self._body
        body += piece
        if not self.is_whole:
            strip_start(body)
            form = detect_format(body)
            self._is_events = form == "events" or (form == "other" and self._declared_events)
            self.is_whole = form is not None and not self._is_events
            if self._is_events:
                self._body = bytearray()
                return bytes(body)
        if len(body) > self._limit:
            self.fault = TooLarge(f"a body of more than {self._limit} bytes")
            self._body = bytearray()
        return b""

    def _check_sizes(self, events: list[bytes]) -> list[bytes]:
        """Return the events. Raises `TooLarge` for one that would need too much memory once it is parsed."""
        for event in events:
            if estimate_parsed_size(event) > 8 * self._limit:
                raise TooLarge(f"an event that takes more than {8 * self._limit} bytes")
        return events

    def _count_chunks(self, chunks: list[Chunk]) -> list[Chunk]:
        """Return the chunks after adding them to the buffered size. Raises `TooLarge`."""
        if self._size is not None:
            for chunk in chunks:
                self._size.add(chunk)
            if self._size.total > self._limit:
                raise TooLarge(f"more than {self._limit} bytes")
        return chunks

    @abstractmethod
    def _read(self, events: list[bytes]) -> list[Chunk]:
        """Decode events to chunks."""

    @abstractmethod
    def _read_whole(self, body: bytes) -> list[Chunk]:
        """Decode a whole response. Raises `UnreadableResponse`."""
