"""Looks on while a model answers: tells a listener of each piece, and remembers what a failure has to say."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from forge_proxy.core.jsontypes import JsonObject, is_integer
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.workflows.sdk.client import ChunkType, StreamChunk


class StreamListener:
    """Of one answer."""

    def __init__(self, on_chunk: Callable[[StreamChunk], Awaitable[None]] | None) -> None:
        self._on_chunk = on_chunk
        self._said: list[str] = []
        self.usage: JsonObject | None = None
        """As last told: some servers tell the sum so far with each chunk. None where the server does not say."""

    @property
    def text(self) -> str:
        """What the model wrote, calls included."""
        return "".join(self._said)

    @property
    def prompt_tokens(self) -> int | None:
        """Of the prompt, as the model server counts; None where it does not say."""
        tokens = self.usage.get("prompt_tokens") if self.usage else None
        return tokens if is_integer(tokens) else None

    async def take(self, chunk: Chunk) -> None:
        """Take in one more chunk."""
        self.usage = chunk.usage or self.usage
        if chunk.anew:
            self._said.clear()
            if not chunk.deltas:
                await self.tell(StreamChunk(ChunkType.RETRY))
        for delta in chunk.deltas:
            self._said += [
                part for part in (delta.text, *(f"{one.name}{one.arguments}" for one in delta.calls)) if part
            ]
            # What is said anew has been heard, in other pieces.
            for piece in pieces_of(delta) if self._on_chunk and not chunk.anew else ():
                await self.tell(piece)

    async def tell(self, chunk: StreamChunk) -> None:
        """Tell the listener, if there is one."""
        if self._on_chunk is None:
            return
        heard: object = self._on_chunk(chunk)
        if not inspect.isawaitable(heard):
            raise TypeError("on_chunk: expected an async function, for it is awaited")
        await heard


def pieces_of(delta: Delta) -> list[StreamChunk]:
    """What a listener is told of it."""
    texts = [text for text in (delta.reasoning, delta.text) if text]
    calls = [part for one in delta.calls for part in (one.name, one.arguments) if part]
    return [
        *(StreamChunk(ChunkType.TEXT_DELTA, text) for text in texts),
        *(StreamChunk(ChunkType.TOOL_CALL_DELTA, part) for part in calls),
    ]
