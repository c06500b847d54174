"""Adapts a custom model client to a backend of the engine, so that all guardrails apply to its responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from forge_proxy.core.backend_errors import BackendBroke
from forge_proxy.core.chat import ModelCall, ModelCard, ToolSpec
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.core.workflow.errors import StreamError
from forge_proxy.wire.backends.ollama.messages import encode_messages
from forge_proxy.wire.backends.openai.request import prepare_messages
from forge_proxy.workflows.sdk.client import ChunkType, LLMClient, LLMResponse, TextResponse, reasoning_of


class ClientBackend:
    """`Backend` over an `LLMClient`.

    It serves one model under any requested name. Without `stream` it calls the client's `send` instead of
    `send_stream`.
    """

    def __init__(self, client: LLMClient, *, stream: bool = True) -> None:
        self._client = client
        self._is_streaming = stream

    @property
    def url(self) -> str:
        """The name of the client's class, since there is no URL."""
        return type(self._client).__name__

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """Yield the client's response. Raises `BackendBroke` if the client raises, `StreamError` without a FINAL."""
        messages = prepare_messages(call, call.dialect)
        if self._client.api_format == "ollama":
            messages = encode_messages(messages)
        sent = [dict(message) for message in messages if is_object(message)]
        tools: Sequence[ToolSpec] = (*call.request.tools, *([call.respond] if call.respond else []))
        try:
            if self._is_streaming and call.stream:
                async for chunk in self._stream_chunks(sent, tools):
                    yield chunk
            else:
                yield _complete_chunk(await self._client.send(sent, tools))
        except ForgeError:
            raise
        except Exception as error:
            # Not retried: the client may have retried already, and only it knows what its errors mean.
            raise BackendBroke(self.url, f"{type(error).__name__}: {error}", is_passing=False) from error

    async def models(self) -> Sequence[ModelCard]:
        """Return no models: a client has no model names."""
        return ()

    async def slots(self) -> int | None:
        """Return None: requests are not limited."""
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        """Return the client's context length."""
        return await self._client.get_context_length()

    async def count_tokens(self, call: ModelCall) -> int | None:
        """Return None: a client cannot count tokens."""
        return None

    async def health(self) -> Health:
        """Return `ok` always."""
        return Health("ok")

    async def _stream_chunks(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk]:
        sent_text = ""
        async for chunk in self._client.send_stream(messages, tools):
            match chunk.type:
                case ChunkType.TEXT_DELTA:
                    sent_text += chunk.content
                    yield Chunk((Delta(text=chunk.content),))
                case ChunkType.RETRY:
                    sent_text = ""
                    yield Chunk(restarts=True)
                case ChunkType.FINAL:
                    yield _remaining_chunk(chunk.response or (), sent_text)
                    return
                case ChunkType.TOOL_CALL_DELTA:
                    pass  # FINAL contains the complete calls
        raise StreamError


def _complete_chunk(response: LLMResponse) -> Chunk:
    if isinstance(response, TextResponse):
        return Chunk((Delta(text=response.content, finish="stop"),))
    calls = tuple(CallDelta(place, call.id, call.tool, call.arguments) for place, call in enumerate(response))
    return Chunk((Delta(reasoning=reasoning_of(response), calls=calls, finish="tool_calls" if calls else "stop"),))


def _remaining_chunk(response: LLMResponse, sent_text: str) -> Chunk:
    """Return the part of a complete response that is not yet sent; `sent_text` is the text sent so far.

    If the response does not start with that text, which may contain reasoning or other white space, the chunk restarts
    the response.
    """
    if not isinstance(response, TextResponse):
        return _complete_chunk(response)
    if not response.content.startswith(sent_text):
        return replace(_complete_chunk(response), restarts=True)
    return _complete_chunk(TextResponse(response.content.removeprefix(sent_text)))
