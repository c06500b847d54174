"""Follows a response as it is generated: passes each piece to a callback and keeps the text for error messages."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from forge_proxy.core.jsontypes import JsonObject, is_integer
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.workflows.sdk.client import ChunkType, StreamChunk


class StreamListener:
    """Follows one response."""

    def __init__(self, on_chunk: Callable[[StreamChunk], Awaitable[None]] | None) -> None:
        self._on_chunk = on_chunk
        self._parts: list[str] = []
        self.usage: JsonObject | None = None
        """The latest usage: some servers report the running total with each chunk. None if the server reports none."""

    @property
    def text(self) -> str:
        """The model's output, calls included."""
        return "".join(self._parts)

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens as the model server counts them; None if it does not report them."""
        tokens = self.usage.get("prompt_tokens") if self.usage else None
        return tokens if is_integer(tokens) else None

    async def process(self, chunk: Chunk) -> None:
        """Process one more chunk."""
        self.usage = chunk.usage or self.usage
        if chunk.restarts:
            self._parts.clear()
            if not chunk.deltas:
                await self.notify(StreamChunk(ChunkType.RETRY))
        for delta in chunk.deltas:
            self._parts += [
                part for part in (delta.text, *(f"{one.name}{one.arguments}" for one in delta.calls)) if part
            ]
            # A chunk that restarts the response repeats text that the callback has received in other pieces.
            for piece in pieces_of(delta) if self._on_chunk and not chunk.restarts else ():
                await self.notify(piece)

    async def notify(self, chunk: StreamChunk) -> None:
        """Call the callback, if there is one."""
        if self._on_chunk is None:
            return
        result: object = self._on_chunk(chunk)
        if not inspect.isawaitable(result):
            raise TypeError("on_chunk: expected an async function: its result is awaited")
        await result


def pieces_of(delta: Delta) -> list[StreamChunk]:
    """Return the stream chunks of a delta."""
    texts = [text for text in (delta.reasoning, delta.text) if text]
    calls = [part for one in delta.calls for part in (one.name, one.arguments) if part]
    return [
        *(StreamChunk(ChunkType.TEXT_DELTA, text) for text in texts),
        *(StreamChunk(ChunkType.TOOL_CALL_DELTA, part) for part in calls),
    ]
