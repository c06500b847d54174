"""A model client of one's own as a backend of the engine: then its answers are rescued, judged and counted like those
of any model server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from forge_proxy.core.chat import ModelCall, ModelCard, ToolSpec
from forge_proxy.core.errors import BackendBroke, ForgeError
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.core.workflow.errors import StreamError
from forge_proxy.wire.ollama.messages import encode_messages
from forge_proxy.wire.openai.call import messages_of
from forge_proxy.workflows.client import ChunkType, LLMClient, LLMResponse, TextResponse, reasoning_of


class ClientBackend:
    """`Backend` over an `LLMClient`. It has one model, which is called what the request says."""

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    @property
    def url(self) -> str:
        """The client's class, which is all there is to point at."""
        return type(self._client).__name__

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """The client's answer. Raises `BackendBroke` for what the client raises, `StreamError` without a FINAL."""
        messages = messages_of(call, call.dialect)
        if self._client.api_format == "ollama":
            messages = encode_messages(messages)
        sent = [dict(message) for message in messages if is_object(message)]
        tools: Sequence[ToolSpec] = (*call.request.tools, *([call.respond] if call.respond else []))
        try:
            if call.stream:
                async for chunk in self._streamed(sent, tools):
                    yield chunk
            else:
                for chunk in _chunks_of(await self._client.send(sent, tools), ""):
                    yield chunk
        except ForgeError:
            raise
        except Exception as error:
            raise BackendBroke(self.url, f"{type(error).__name__}: {error}") from error

    async def models(self) -> Sequence[ModelCard]:
        """None that have names."""
        return ()

    async def slots(self) -> int | None:
        """Unknown: it is asked without bounds."""
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        """What the client says."""
        return await self._client.get_context_length()

    async def count_tokens(self, call: ModelCall) -> int | None:
        """Unknown."""
        return None

    async def health(self) -> Health:
        """It is there."""
        return Health("ok")

    async def _streamed(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk]:
        told = ""
        async for chunk in self._client.send_stream(messages, tools):
            match chunk.type:
                case ChunkType.TEXT_DELTA:
                    told += chunk.content
                    yield Chunk((Delta(text=chunk.content),))
                case ChunkType.FINAL:
                    for last in _chunks_of(chunk.response or (), told):
                        yield last
                    return
                case ChunkType.TOOL_CALL_DELTA | ChunkType.RETRY:
                    pass  # calls come whole with FINAL, and a client that retries has told nothing of it to anybody
        raise StreamError


def _chunks_of(response: LLMResponse, told: str) -> list[Chunk]:
    """What is left to tell of a whole answer, of whose text `told` has been told."""
    if isinstance(response, TextResponse):
        return [Chunk((Delta(text=response.content.removeprefix(told), finish="stop"),))]
    calls = tuple(CallDelta(place, call.id, call.tool, call.arguments) for place, call in enumerate(response))
    return [Chunk((Delta(reasoning=reasoning_of(response), calls=calls, finish="tool_calls" if calls else "stop"),))]
