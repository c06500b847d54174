"""What the answers of all model servers have in common: JSON objects that may be errors, events that come in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod

import orjson

from forge_proxy.core.errors import OutOfMemory
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.body import BufferedSize, PendingSize, form_of, is_out_of_memory, strip_start, would_take
from forge_proxy.wire.sse import MAX_RESPONSE, SseReader, TooLarge


class UnreadableAnswer(ValueError):
    """What the backend sent is no chunk and no completion. `error` is its error object, if it sent one."""

    def __init__(self, why: str, error: Json = None) -> None:
        super().__init__(why)
        self.error = error


class NestedTooDeeply(UnreadableAnswer):
    """JSON that could be read and not be written again: only a model that runs wild writes it."""


_SHALLOW = 100
"""Levels that are always written."""
_ADDED = 16
"""Levels that writing an answer in another dialect may add."""


def read_answer(raw: bytes, *, verbatim: bool = False) -> dict[str, Json]:
    """The JSON object of an answer, or of a part of one. Raises `OutOfMemory` or `UnreadableAnswer`, also for an error;
    `NestedTooDeeply` for what could not be written, unless it is passed on `verbatim`.
    """
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise _unreadable(raw, exc) from exc
    if not verbatim and raw.count(b"{") + raw.count(b"[") > _SHALLOW:
        _check_depth(value)
    if not is_object(value):
        raise UnreadableAnswer("not a JSON object")
    if value.get("error"):
        raise UnreadableAnswer("an error in place of an answer", value)
    if value.get("object") == "error":  # vLLM's, which it also sends in a stream
        raise UnreadableAnswer("an error in place of an answer", {"error": value})
    return value


def _unreadable(raw: bytes, exc: orjson.JSONDecodeError) -> UnreadableAnswer:
    start = raw[:64].strip().lower()
    if "limit" in exc.msg:  # of recursion, or of depth, as the version has it
        return NestedTooDeeply("nested too deeply")
    if is_out_of_memory(exc):
        raise OutOfMemory("the model server's response") from exc
    if not start:
        return UnreadableAnswer("the response is empty")
    if start.startswith((b"<!doctype html", b"<html")):
        return UnreadableAnswer("an HTML page in place of JSON")
    return UnreadableAnswer(f"not JSON: {exc}")


def _check_depth(value: Json) -> None:
    """Raises `NestedTooDeeply` for what orjson reads (1,024 levels) and does not write (254)."""
    for _ in range(_ADDED):
        value = [value]
    written(value)


def written(value: Json) -> str:
    """The text of a JSON value. Raises `NestedTooDeeply`."""
    try:
        return orjson.dumps(value).decode()
    except TypeError as exc:
        raise NestedTooDeeply("nested too deeply") from exc


def joined(chunks: list[Chunk]) -> Chunk:
    """Chunks that came together, as one that holds all of their events."""
    head: dict[str, Json] = {}
    for chunk in chunks:
        head.update(chunk.head)
    usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), None)
    sent = [chunk.as_sent for chunk in chunks if chunk.as_sent is not None]
    return Chunk(
        deltas=tuple(delta for chunk in chunks for delta in chunk.deltas),
        usage=usage,
        head=head,
        as_sent=b"\n\ndata: ".join(sent) if sent else None,
    )


class EventReader(ABC):
    """Fed the bytes of a response body, gives out its chunks. Each dialect reads its own events.

    Whether the body is a stream of events or one JSON object is decided by its first bytes: servers, and proxies before
    them, get the `Content-Type` wrong. `declared_events`, what it says, counts only if the bytes could be either.

    `limit` bounds the bytes of an unfinished event and of a whole body; if the response is `buffered`, also what all of
    its chunks bring.
    """

    def __init__(self, *, limit: int = MAX_RESPONSE, buffered: bool = False, declared_events: bool = True) -> None:
        self.begun = False
        """Whether any event of an answer has been read."""
        self.finished = False
        """Whether the answer is complete: a finish reason has been read."""
        self.done = False
        """Whether the last event has been read."""
        self.fault: UnreadableAnswer | TooLarge | None = None
        """Why nothing more can be read; what came before it has been given out."""
        self.is_whole = False
        """Whether the body is one JSON object. Known when a chunk has been given out."""
        self._limit = limit
        self._size = BufferedSize() if buffered else None
        self._declared_events = declared_events
        self._events = SseReader(limit)
        self._pending = PendingSize()
        self._is_events = False
        self._body = bytearray()
        """What has come, until it is an event stream."""

    def feed(self, piece: bytes) -> list[Chunk]:
        """The chunks that `piece` completes: what came together leaves together."""
        if not self._is_events:
            piece = self._sort(piece)
            if not self._is_events:
                return self._pending.report(len(self._body))
        try:
            events = self._events.feed(piece)
            if not events:
                return self._pending.report(self._events.pending_bytes)
            return self._counted(self._read(self._checked(events)))
        except TooLarge as exc:
            self.fault = exc
            return []

    def end(self) -> list[Chunk]:
        """The chunks that the end of the body completes."""
        if self.fault is not None:
            return []
        try:
            if self._is_events:
                last = self._events.end()
                return self._counted(self._read(self._checked([last]))) if last is not None else []
            self.is_whole = True
            return self._counted(self._read_whole(*self._checked([bytes(self._body)])))
        except (TooLarge, UnreadableAnswer) as exc:
            self.fault = exc
            return []

    def _sort(self, piece: bytes) -> bytes:
        """Decide what the body is, as far as it has come. Returns what of it is an event stream."""
        body = self._body
        body += piece
        if not self.is_whole:
            strip_start(body)
            form = form_of(body)
            self._is_events = form == "events" or (form == "other" and self._declared_events)
            self.is_whole = form is not None and not self._is_events
            if self._is_events:
                self._body = bytearray()
                return bytes(body)
        if len(body) > self._limit:
            self.fault = TooLarge(f"a body of more than {self._limit} bytes")
            self._body = bytearray()
        return b""

    def _checked(self, events: list[bytes]) -> list[bytes]:
        """The same events. Raises `TooLarge` for one that would take many times its size once it is parsed."""
        for event in events:
            if would_take(event) > 8 * self._limit:
                raise TooLarge(f"an event that takes more than {8 * self._limit} bytes")
        return events

    def _counted(self, chunks: list[Chunk]) -> list[Chunk]:
        """The same chunks, added to what is held. Raises `TooLarge`."""
        if self._size is not None:
            for chunk in chunks:
                self._size.add(chunk)
            if self._size.bytes > self._limit:
                raise TooLarge(f"more than {self._limit} bytes")
        return chunks

    @abstractmethod
    def _read(self, events: list[bytes]) -> list[Chunk]:
        """The chunks of some events."""

    @abstractmethod
    def _read_whole(self, body: bytes) -> list[Chunk]:
        """The chunks of a whole answer. Raises `UnreadableAnswer`."""
