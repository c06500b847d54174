"""The bytes of a streamed answer to chunks: what came together leaves together."""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.openai.answer import UnreadableAnswer, decode_answer, progress_of
from forge_proxy.wire.openai.places import CallPlaces
from forge_proxy.wire.sse import SseError, SseReader

_DONE = b"[DONE]"
_FINISHED = re.compile(rb'"finish_reason"\s*:\s*"')


class StreamReader:
    """Fed the bytes of a stream, gives out its chunks.

    `verbatim` is for a stream that is passed on as it is: then only its first event is read, for the answer's head, and
    those that may hold an error. `model` is put in place of the backend's name for its model. `progress` says that the
    stream may begin with events about the reading of the prompt, which become chunks of their own.
    """

    def __init__(self, *, verbatim: bool = False, model: str | None = None, progress: bool = False) -> None:
        self.done = False
        """Whether `[DONE]` has been read."""
        self.finished = False
        """Whether the answer is complete, `[DONE]` or not: a finish reason has been read."""
        self.fault: UnreadableAnswer | SseError | None = None
        """Why nothing more can be read; what came before it has been given out."""
        self._reader = SseReader()
        self._verbatim = verbatim
        self._model = model
        self.begun = False
        """Whether any event of an answer has been read."""
        self._places = CallPlaces()
        self._progress = progress

    def feed(self, piece: bytes) -> list[Chunk]:
        """The chunks that `piece` completes."""
        try:
            events = self._reader.feed(piece)
        except SseError as exc:
            self.fault = exc
            return []
        return self._read(events)

    def end(self) -> list[Chunk]:
        """The chunks that the end of the stream completes."""
        last = self._reader.end()
        return self._read([last]) if last is not None else []

    def _read(self, events: list[bytes]) -> list[Chunk]:
        progress: list[Chunk] = []
        chunks: list[Chunk] = []
        for event in events:
            if event == _DONE:
                self.done = True
                break
            if self._verbatim and self.begun and _looks_right(event):
                self.finished = self.finished or _FINISHED.search(event) is not None
                chunks.append(Chunk(as_sent=event))
                continue
            try:
                chunk = decode_answer(event, model=self._model)
            except UnreadableAnswer as exc:
                self.fault = exc
                break
            if self._progress and not self.begun and (read := progress_of(chunk)):
                progress.append(Chunk(progress=read, as_sent=chunk.as_sent))
                continue
            self.begun = True
            for delta in chunk.deltas:
                self.finished = self.finished or delta.finish is not None
            chunks.append(self._places.place(chunk))
        if len(chunks) > 1:
            chunks = [_joined(chunks)]
        return progress + chunks if progress else chunks


def _looks_right(event: bytes) -> bool:
    """Whether an event may be passed on unread: it is an object, as far as its ends tell, and holds no error."""
    return event[:1] == b"{" and event[-1:] == b"}" and b'"error"' not in event


def _joined(chunks: list[Chunk]) -> Chunk:
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
        as_sent=b"\n\ndata: ".join(sent),
    )
