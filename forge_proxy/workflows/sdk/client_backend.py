"""A model client of one's own as a backend of the engine: then its answers are rescued, judged and counted like those
of any model server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from forge_proxy.core.chat import ModelCall, ModelCard, ToolSpec
from forge_proxy.core.errors import BackendBroke, ForgeError
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.core.workflow.errors import StreamError
from forge_proxy.wire.backends.ollama.messages import encode_messages
from forge_proxy.wire.backends.openai.request import messages_of
from forge_proxy.workflows.sdk.client import ChunkType, LLMClient, LLMResponse, TextResponse, reasoning_of


class ClientBackend:
    """`Backend` over an `LLMClient`. It has one model, which is called what the request says. Without `stream` the
    client is asked for whole answers.
    """

    def __init__(self, client: LLMClient, *, stream: bool = True) -> None:
        self._client = client
        self._stream = stream

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
            if self._stream and call.stream:
                async for chunk in self._streamed(sent, tools):
                    yield chunk
            else:
                yield _whole(await self._client.send(sent, tools))
        except ForgeError:
            raise
        except Exception as error:
            # Not retried: the client may have retried already, and only it knows what its errors mean.
            raise BackendBroke(self.url, f"{type(error).__name__}: {error}", is_passing=False) from error

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
                case ChunkType.RETRY:
                    told = ""
                    yield Chunk(anew=True)
                case ChunkType.FINAL:
                    yield _rest(chunk.response or (), told)
                    return
                case ChunkType.TOOL_CALL_DELTA:
                    pass  # calls come whole with FINAL
        raise StreamError


def _whole(response: LLMResponse) -> Chunk:
    if isinstance(response, TextResponse):
        return Chunk((Delta(text=response.content, finish="stop"),))
    calls = tuple(CallDelta(place, call.id, call.tool, call.arguments) for place, call in enumerate(response))
    return Chunk((Delta(reasoning=reasoning_of(response), calls=calls, finish="tool_calls" if calls else "stop"),))


def _rest(response: LLMResponse, told: str) -> Chunk:
    """What is left to tell of a whole answer, of whose text `told` has been told; all of it anew, where that was not
    its beginning: thoughts that are no part of it, or white space around it.
    """
    if not isinstance(response, TextResponse):
        return _whole(response)
    if not response.content.startswith(told):
        return replace(_whole(response), anew=True)
    return _whole(TextResponse(response.content.removeprefix(told)))
