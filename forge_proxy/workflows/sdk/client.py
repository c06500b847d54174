"""The protocol of custom model clients, and the types that it uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import MessageFormat, ToolCall


@dataclass(frozen=True, slots=True)
class TextResponse:
    """A response without a tool call, as far as the client can tell."""

    content: str


LLMResponse: TypeAlias = Sequence[ToolCall] | TextResponse


def reasoning_of(response: LLMResponse) -> str | None:
    """Return the model's reasoning before its calls, if the client reports it."""
    calls = () if isinstance(response, TextResponse) else response
    return next((call.reasoning for call in calls if call.reasoning), None)


class ChunkType(StrEnum):
    """The type of a chunk."""

    TEXT_DELTA = "text_delta"
    """More text or reasoning."""
    TOOL_CALL_DELTA = "tool_call_delta"
    """A part of a call: first its name, then its arguments."""
    FINAL = "final"
    """The complete response."""
    RETRY = "retry"
    """All chunks since the last FINAL or RETRY are void: the request is retried."""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One piece of a streamed response."""

    type: ChunkType
    content: str = ""
    response: LLMResponse | None = None
    """The complete response; only with FINAL."""


@runtime_checkable
class LLMClient(Protocol):
    """A client of a model. It neither retries nor repairs responses: the runner does.

    `messages` are in the format of `Message.to_api_dict` for `api_format`. An exception that is not a `ForgeError` is
    raised from the run as `BackendBroke`.
    """

    @property
    def api_format(self) -> MessageFormat:
        """The format of the messages. A plain class or instance attribute suffices."""
        ...

    async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> LLMResponse:
        """Return the model's response."""
        ...

    def send_stream(
        self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        """Yield the model's response as it is generated, then the complete response in a FINAL chunk."""
        ...

    async def get_context_length(self) -> int | None:
        """Return the context window in tokens; None if it is not known."""
        ...
