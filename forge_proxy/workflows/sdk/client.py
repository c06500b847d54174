"""What a model client of one's own implements, and the values it speaks in."""

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
    """An answer that is no tool call, as far as the client can tell."""

    content: str


LLMResponse: TypeAlias = Sequence[ToolCall] | TextResponse


def reasoning_of(response: LLMResponse) -> str | None:
    """What the model thought before its calls, where a client tells that."""
    calls = () if isinstance(response, TextResponse) else response
    return next((call.reasoning for call in calls if call.reasoning), None)


class ChunkType(StrEnum):
    """What a chunk carries."""

    TEXT_DELTA = "text_delta"
    """More text, or more thought."""
    TOOL_CALL_DELTA = "tool_call_delta"
    """More of a call: its name first, then its arguments."""
    FINAL = "final"
    """The whole answer."""
    RETRY = "retry"
    """What came since the last FINAL or RETRY is void: the model is asked again."""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One piece of an answer that is being written."""

    type: ChunkType
    content: str = ""
    response: LLMResponse | None = None
    """The whole answer, with FINAL only."""


@runtime_checkable
class LLMClient(Protocol):
    """A model, however it is reached. It neither retries nor repairs: that is the runner's.

    `messages` come as `Message.to_api_dict` makes them for `api_format`. What a method raises that is no `ForgeError`
    reaches the caller of the run as `BackendBroke`.
    """

    @property
    def api_format(self) -> MessageFormat:
        """The form of the messages. A plain attribute of the class or of the client will do."""
        ...

    async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> LLMResponse:
        """The model's answer."""
        ...

    def send_stream(
        self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        """The model's answer as it is written, with the whole of it in a FINAL chunk at the end."""
        ...

    async def get_context_length(self) -> int | None:
        """Tokens of its context window; None where that is not known."""
        ...
