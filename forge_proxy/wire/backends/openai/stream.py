"""The bytes of a streamed answer to chunks: what came together leaves together."""

from __future__ import annotations

import re

from forge_proxy.core.stream import Chunk
from forge_proxy.wire.backends.openai.call_indexes import CallIndexes
from forge_proxy.wire.backends.openai.response import decode_answer, progress_of
from forge_proxy.wire.backends.responses import EventReader, UnreadableAnswer, joined
from forge_proxy.wire.sse import MAX_RESPONSE

_DONE = b"[DONE]"
_FINISHED = re.compile(rb'"finish_reason"\s*:\s*"')


class ChatStreamReader(EventReader):
    """Fed the bytes of a stream, gives out its chunks.

    `verbatim` is for what is passed on as it is, if it comes as it is wanted (`stream`): then only the first event of a
    stream is read, for the answer's head, and those that may hold an error. `model` is put in place of the backend's
    name for its model. `progress` says that the stream may begin with events about the reading of the prompt, which
    become chunks of their own.
    """

    def __init__(
        self,
        *,
        verbatim: bool = False,
        stream: bool = True,
        model: str | None = None,
        progress: bool = False,
        limit: int = MAX_RESPONSE,
        buffered: bool = False,
        declared_events: bool = True,
    ) -> None:
        super().__init__(limit=limit, buffered=buffered, declared_events=declared_events)
        self._verbatim = verbatim and stream
        self._whole_verbatim = verbatim and not stream
        self._model = model
        self._places = CallIndexes()
        self._progress = progress

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
                chunk = decode_answer(event, model=self._model, verbatim=self._verbatim)
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
            chunks = [joined(chunks)]
        return progress + chunks if progress else chunks

    def _read_whole(self, body: bytes) -> list[Chunk]:
        chunk = self._places.place(decode_answer(body, model=self._model, whole=True, verbatim=self._whole_verbatim))
        if not chunk.deltas:
            raise UnreadableAnswer("there is no choice in it")
        self.begun = self.finished = self.done = True
        return [chunk]


def _looks_right(event: bytes) -> bool:
    """Whether an event may be passed on unread: it is an object, as far as its ends tell, and holds no error."""
    return event[:1] == b"{" and event[-1:] == b"}" and b'"error"' not in event
