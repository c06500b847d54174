"""An `LLMClient` that returns the responses of a script and keeps its requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import MessageFormat, ToolCall
from forge_proxy.workflows.sdk.client import ChunkType, LLMResponse, StreamChunk, TextResponse


def calls(*names: str, **args: Json) -> list[ToolCall]:
    """A response that calls these tools, each with the same arguments."""
    return [ToolCall.of(name, args) for name in names]


def text(content: str) -> TextResponse:
    """A plain-text response."""
    return TextResponse(content)


@dataclass
class SaidClient:
    """Returns one response after the other, and repeats the last one."""

    script: Sequence[LLMResponse | Exception]
    api_format: MessageFormat = "openai"
    asked: list[list[dict[str, Json]]] = field(default_factory=list)
    """The messages of each request."""

    def _next(self, messages: list[dict[str, Json]]) -> LLMResponse:
        self.asked.append(messages)
        said = self.script[min(len(self.asked), len(self.script)) - 1]
        if isinstance(said, Exception):
            raise said
        return said

    async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> LLMResponse:
        return self._next(messages)

    async def send_stream(
        self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        said = self._next(messages)
        if isinstance(said, TextResponse):
            for word in said.content.split(" "):
                yield StreamChunk(ChunkType.TEXT_DELTA, word)
                yield StreamChunk(ChunkType.TEXT_DELTA, " ")
            yield StreamChunk(ChunkType.FINAL, response=TextResponse(f"{said.content} "))
        else:
            yield StreamChunk(ChunkType.FINAL, response=said)

    async def get_context_length(self) -> int | None:
        return None
