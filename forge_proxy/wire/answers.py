"""What the answers of all model servers have in common: JSON objects that may be errors, events that come in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod

import orjson

from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.sse import SseError, SseReader


class UnreadableAnswer(ValueError):
    """What the backend sent is no chunk and no completion. `error` is its error object, if it sent one."""

    def __init__(self, why: str, error: Json = None) -> None:
        super().__init__(why)
        self.error = error


def read_answer(raw: bytes) -> dict[str, Json]:
    """The JSON object of an answer, or of a part of one. Raises `UnreadableAnswer`, also for an error."""
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise UnreadableAnswer(f"not JSON: {exc}") from exc
    if not is_object(value):
        raise UnreadableAnswer("not a JSON object")
    if value.get("error"):
        raise UnreadableAnswer("an error in place of an answer", value)
    if value.get("object") == "error":  # vLLM's, which it also sends in a stream
        raise UnreadableAnswer("an error in place of an answer", {"error": value})
    return value


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
    """Fed the bytes of an event stream, gives out its chunks. Each dialect reads its own events."""

    def __init__(self) -> None:
        self.begun = False
        """Whether any event of an answer has been read."""
        self.finished = False
        """Whether the answer is complete: a finish reason has been read."""
        self.done = False
        """Whether the last event has been read."""
        self.fault: UnreadableAnswer | SseError | None = None
        """Why nothing more can be read; what came before it has been given out."""
        self._events = SseReader()

    def feed(self, piece: bytes) -> list[Chunk]:
        """The chunks that `piece` completes: what came together leaves together."""
        try:
            events = self._events.feed(piece)
        except SseError as exc:
            self.fault = exc
            return []
        return self._read(events)

    def end(self) -> list[Chunk]:
        """The chunks that the end of the stream completes."""
        last = self._events.end()
        return self._read([last]) if last is not None else []

    @abstractmethod
    def _read(self, events: list[bytes]) -> list[Chunk]:
        """The chunks of some events."""
