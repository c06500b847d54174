"""A model client over the engine: answers as the model gives them, for loops that judge them themselves.

`WorkflowRunner` takes it as well, and guards what comes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.errors import UnreadCall
from forge_proxy.core.guardrails import Retry, Turn
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, no_fields
from forge_proxy.core.messages import MessageFormat
from forge_proxy.core.rescue import rescue
from forge_proxy.core.stream import Chunk, Reply, ReplyBuilder
from forge_proxy.engine.answer import AttemptResult, Engine
from forge_proxy.workflows.requests import encode_tool
from forge_proxy.workflows.sdk.client import ChunkType, LLMResponse, StreamChunk, TextResponse
from forge_proxy.workflows.stream_listener import pieces_of


class EngineClient:
    """`LLMClient` over an `Engine`: one model of its backend.

    `model` is its name; None means the engine's usual one. `options` are more fields of each request, as `temperature`.
    What is asked waits for a slot and keeps to the budget, like every request, but nothing is repaired or asked again.
    """

    api_format: MessageFormat = "openai"

    def __init__(self, engine: Engine, model: str | None = None, options: JsonObject | None = None) -> None:
        self.engine = engine
        self.model = model
        self.options = options or no_fields()
        self.resolved_mode: Literal["native", "prompt"] | None = None
        """How the model is told of tools: in the request, or in the prompt. None before the first answer."""
        self.last_usage: Mapping[str, int] | None = None
        """`input_tokens` and `output_tokens` of the latest answer; None where the model server does not count."""

    async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> LLMResponse:
        """The model's answer. Raises `Overloaded`, `ContextBudgetExceeded`, `UnknownModel` or a `BackendFault`."""
        response: LLMResponse = TextResponse("")
        async with aclosing(self.send_stream(messages, tools)) as chunks:
            async for chunk in chunks:
                if chunk.response is not None:
                    response = chunk.response
        return response

    async def send_stream(
        self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
    ) -> AsyncGenerator[StreamChunk]:
        """The answer as it is written, with the whole of it in a FINAL chunk at the end. Raises like `send`."""
        request = self._request(messages, tools or ())
        builder, unread = ReplyBuilder(), None
        self.last_usage = None
        try:
            async with aclosing(self.engine.unguarded(request, request_id="client")) as chunks:
                async for chunk in chunks:
                    self._note(chunk)
                    for delta in chunk.deltas:
                        builder.add(delta)
                        for piece in pieces_of(delta):
                            yield piece
        except UnreadCall as error:  # the server could not read its own model, which is no reason to hide its words
            if not error.written:
                raise
            unread = TextResponse(error.written)
        self.resolved_mode = self.engine.tool_mode(self.model)
        yield StreamChunk(ChunkType.FINAL, response=unread or self._response(builder.reply(), tools or ()))

    async def attempt(
        self, request: ChatRequest, turn: Turn, *, client: str = ""
    ) -> AsyncGenerator[Chunk | Retry | AttemptResult]:
        """See `Engine.attempt`: for `WorkflowRunner`, with the usage noted."""
        self.last_usage = None
        async with aclosing(self.engine.attempt(request, turn, client=client)) as events:
            async for event in events:
                if isinstance(event, Chunk):
                    self._note(event)
                yield event
        self.resolved_mode = self.engine.tool_mode(request.model)

    async def count(self, request: ChatRequest) -> int | None:
        """See `Engine.count`."""
        return await self.engine.count(request)

    async def get_context_length(self) -> int | None:
        """Tokens for prompt and answer together, by the budget; None where nothing is known of them."""
        return (await self.engine.budgets.of(self.model)).tokens

    def _request(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec]) -> ChatRequest:
        body: dict[str, Json] = {**self.options, "messages": [*messages], "stream": True}
        if tools:
            body["tools"] = [encode_tool(tool) for tool in tools]
        if self.model is not None:
            body["model"] = self.model
        return ChatRequest(body, tuple(messages), self.model, tuple(tools), stream=True, include_usage=True)

    def _response(self, reply: Reply, tools: Sequence[ToolSpec]) -> LLMResponse:
        calls = reply.calls
        if not calls and self.resolved_mode == "prompt":  # there text is how calls are made
            calls = tuple(found.call for found in rescue(reply.text or "", {tool.name for tool in tools}).calls)
        if not calls:
            return TextResponse(reply.text or "")
        return [replace(call, reasoning=None if place else reply.reasoning) for place, call in enumerate(calls)]

    def _note(self, chunk: Chunk) -> None:
        if chunk.usage is None:
            return
        read, written = chunk.usage.get("prompt_tokens"), chunk.usage.get("completion_tokens")
        if is_integer(read) and is_integer(written):
            self.last_usage = {"input_tokens": read, "output_tokens": written}
