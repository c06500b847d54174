"""Decodes a streamed response to chunks. Events that arrive together become one chunk."""

from __future__ import annotations

import re

from forge_proxy.core.stream import Chunk
from forge_proxy.wire.backends.openai.call_indexes import CallIndexes
from forge_proxy.wire.backends.openai.response import decode_response, read_progress
from forge_proxy.wire.backends.responses import EventReader, UnreadableResponse, join_chunks, without_traceback
from forge_proxy.wire.sse import MAX_RESPONSE

_DONE = b"[DONE]"
_FINISHED = re.compile(rb'"finish_reason"\s*:\s*"')


class ChatStreamReader(EventReader):
    """Takes the bytes of a response and returns its chunks.

    `verbatim` is for a response that is forwarded unchanged if the server streams as requested (`stream`): only the
    first event, for the head of the response, and events that may be errors are parsed. `model` replaces the backend's
    model name. `progress` is whether the stream may begin with prompt progress events; each becomes its own chunk.
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
        self._indexes = CallIndexes()
        self._progress = progress

    def _read(self, events: list[bytes]) -> list[Chunk]:
        progress: list[Chunk] = []
        chunks: list[Chunk] = []
        for event in events:
            if event == _DONE:
                self.is_done = True
                break
            if self._verbatim and self.has_begun and _can_forward(event):
                self.has_finish_reason = self.has_finish_reason or _FINISHED.search(event) is not None
                chunks.append(Chunk(as_sent=event))
                continue
            try:
                chunk = decode_response(event, model=self._model, verbatim=self._verbatim)
            except UnreadableResponse as exc:
                self.fault = without_traceback(exc)
                break
            if self._progress and not self.has_begun and (read := read_progress(chunk)):
                progress.append(Chunk(progress=read, as_sent=chunk.as_sent))
                continue
            self.has_begun = True
            for delta in chunk.deltas:
                self.has_finish_reason = self.has_finish_reason or delta.finish is not None
            chunks.append(self._indexes.assign(chunk))
        if len(chunks) > 1:
            chunks = [join_chunks(chunks)]
        return progress + chunks if progress else chunks

    def _read_whole(self, body: bytes) -> list[Chunk]:
        chunk = self._indexes.assign(
            decode_response(body, model=self._model, whole=True, verbatim=self._whole_verbatim)
        )
        if not chunk.deltas:
            raise UnreadableResponse("it has no choice")
        self.has_begun = self.has_finish_reason = self.is_done = True
        return [chunk]


def _can_forward(event: bytes) -> bool:
    """Return whether an event may be forwarded without parsing: it looks like an object, and has neither an error nor
    token counts.
    """
    return event[:1] == b"{" and event[-1:] == b"}" and b'"error"' not in event and b'"prompt_tokens"' not in event
