"""Collects the chunks of a response that is not streamed, for the codec of any client API."""

from __future__ import annotations

from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk, Completion, CompletionBuilder


class ResponseCollector:
    """Collects the chunks of one response. A response of a single chunk is only assembled on request."""

    def __init__(self) -> None:
        self._first: Chunk | None = None
        self._builder: CompletionBuilder | None = None
        """Of all chunks, once there is more than one."""
        self.report: Report | None = None
        """The report on the response, once it is complete."""

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk. Prompt progress is not a part of the response."""
        if chunk == Chunk(restarts=True):
            self._first = self._builder = None
        elif chunk.progress is not None:
            pass
        elif self._first is None:
            self._first = chunk
        else:
            self._builder = self._builder or self._begin()
            self._builder.add(chunk)

    @property
    def first(self) -> Chunk | None:
        """The first chunk, whose `head` identifies the response."""
        return self._first

    @property
    def as_sent(self) -> bytes | None:
        """The backend's own JSON, if it is the whole response."""
        return self._first.as_sent if self._builder is None and self._first is not None else None

    def completion(self) -> Completion:
        """Assemble the response."""
        return (self._builder or self._begin()).completion()

    def _begin(self) -> CompletionBuilder:
        builder = CompletionBuilder()
        if self._first is not None:
            builder.add(self._first)
        return builder
