"""A model client on top of the engine: unmodified responses, for agent loops that judge them themselves.

`WorkflowRunner` accepts it too and applies its guardrails.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from forge_proxy.core.backend_errors import UnreadCall
from forge_proxy.core.chat import ChatRequest, ToolSpec
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

    `model` is its name; None means the engine's default. `options` are further fields of each request, such as
    `temperature`. Requests wait for a slot and respect the context budget, but responses are neither repaired nor
    retried.
    """

    api_format: MessageFormat = "openai"

    def __init__(self, engine: Engine, model: str | None = None, options: JsonObject | None = None) -> None:
        self.engine = engine
        self.model = model
        self.options = options or no_fields()
        self.resolved_mode: Literal["native", "prompt"] | None = None
        """How tools are presented to the model: in the request or in the prompt. None before the first response."""
        self.last_usage: Mapping[str, int] | None = None
        """`input_tokens` and `output_tokens` of the latest response; None if the model server does not report them."""

    async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> LLMResponse:
        """Return the model's response.

        Raises `Overloaded`, `ContextBudgetExceeded`, `UnknownModel` or a `BackendFault`.
        """
        response: LLMResponse = TextResponse("")
        async with aclosing(self.send_stream(messages, tools)) as chunks:
            async for chunk in chunks:
                if chunk.response is not None:
                    response = chunk.response
        return response

    async def send_stream(
        self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
    ) -> AsyncGenerator[StreamChunk]:
        """Yield the response as it is generated, then the complete response in a FINAL chunk. Raises like `send`."""
        request = self._request(messages, tools or ())
        builder, unread = ReplyBuilder(), None
        self.last_usage = None
        try:
            async with aclosing(self.engine.stream_unguarded(request, request_id="client")) as chunks:
                async for chunk in chunks:
                    self._record_usage(chunk)
                    for delta in chunk.deltas:
                        builder.add(delta)
                        for piece in pieces_of(delta):
                            yield piece
        except (
            UnreadCall
        ) as error:  # the server could not parse the model's output, which is still of use to the program
            if not error.written:
                raise
            unread = TextResponse(error.written)
        self.resolved_mode = self.engine.tool_mode(self.model)
        yield StreamChunk(ChunkType.FINAL, response=unread or self._response(builder.reply(), tools or ()))

    async def attempt(
        self, request: ChatRequest, turn: Turn, *, run_id: str = ""
    ) -> AsyncGenerator[Chunk | Retry | AttemptResult]:
        """See `Engine.attempt`. Used by `WorkflowRunner`; also records the usage."""
        self.last_usage = None
        async with aclosing(self.engine.attempt(request, turn, run_id=run_id)) as events:
            async for event in events:
                if isinstance(event, Chunk):
                    self._record_usage(event)
                yield event
        self.resolved_mode = self.engine.tool_mode(request.model)

    async def count(self, request: ChatRequest) -> int | None:
        """See `Engine.count`."""
        return await self.engine.count(request)

    async def get_context_length(self) -> int | None:
        """Return the context budget in tokens, prompt and completion together; None if it is not known."""
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
        if not calls and self.resolved_mode == "prompt":  # in prompt mode calls are made as text
            calls = tuple(found.call for found in rescue(reply.text or "", {tool.name for tool in tools}).calls)
        if not calls:
            return TextResponse(reply.text or "")
        return [replace(call, reasoning=None if place else reply.reasoning) for place, call in enumerate(calls)]

    def _record_usage(self, chunk: Chunk) -> None:
        if chunk.usage is None:
            return
        read, written = chunk.usage.get("prompt_tokens"), chunk.usage.get("completion_tokens")
        if is_integer(read) and is_integer(written):
            self.last_usage = {"input_tokens": read, "output_tokens": written}
