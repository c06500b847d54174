"""A custom model client: its FINAL chunk is authoritative, whatever it streamed before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import MessageFormat, ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.sdk.client import ChunkType, LLMResponse, StreamChunk, TextResponse

CALL = '{"name": "look", "arguments": {"n": 1}}'
RETRY = StreamChunk(ChunkType.RETRY)
ReceivedChunks: TypeAlias = list[tuple[str, str]]


class Streams:
    """Streams these chunks, then calls `finish`. It cannot send complete responses."""

    api_format: MessageFormat = "openai"

    def __init__(self, *streamed: StreamChunk) -> None:
        self.responses = [[StreamChunk(ChunkType.FINAL, response=[ToolCall.of("finish")])], [*streamed]]

    async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> LLMResponse:
        raise NotImplementedError

    async def send_stream(
        self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        for chunk in self.responses.pop():
            yield chunk

    async def get_context_length(self) -> int | None:
        return None


def text(content: str) -> StreamChunk:
    return StreamChunk(ChunkType.TEXT_DELTA, content)


def final(content: str) -> StreamChunk:
    return StreamChunk(ChunkType.FINAL, response=TextResponse(content))


def workflow(looked: list[int]) -> Workflow:
    schema: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def note(n: int) -> None:
        looked.append(n)

    look = ToolDef(ToolSpec.from_json_schema("look", "", schema), note)
    finish = ToolDef(ToolSpec.from_json_schema("finish", "", {"type": "object"}), lambda: "done")
    return Workflow("w", "", {"look": look, "finish": finish}, [], "finish", "Help.")


@pytest.mark.parametrize(
    ("streamed", "received"),
    [
        ([text(CALL[:9]), text(CALL[9:]), final(CALL)], [("text_delta", CALL[:9]), ("text_delta", CALL[9:])]),
        (
            [text("One to look at. "), text(CALL), final(CALL)],
            [("text_delta", "One to look at. "), ("text_delta", CALL)],
        ),
        ([text(f" {CALL}\n"), final(CALL)], [("text_delta", f" {CALL}\n")]),
        ([final(CALL)], [("text_delta", CALL)]),
        (
            [text(CALL[:9]), RETRY, text(CALL), final(CALL)],
            [("text_delta", CALL[:9]), ("retry", ""), ("text_delta", CALL)],
        ),
        ([text(CALL), RETRY, text(CALL), final(CALL)], [("text_delta", CALL), ("retry", ""), ("text_delta", CALL)]),
    ],
)
async def test_a_streamed_call_is_executed_once(streamed: list[StreamChunk], received: ReceivedChunks) -> None:
    looked: list[int] = []
    chunks: ReceivedChunks = []

    async def on_chunk(chunk: StreamChunk) -> None:
        chunks.append((chunk.type.value, chunk.content))

    runner = WorkflowRunner(Streams(*streamed), stream=True, on_chunk=on_chunk)

    assert await runner.run(workflow(looked), "Go.") == "done"
    assert looked == [1]
    assert chunks[: len(received) + 1] == [*received, ("final", "")]


async def test_without_stream_the_client_is_called_by_send() -> None:
    class Whole(Streams):
        async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> LLMResponse:
            return TextResponse(CALL) if len(messages) == 2 else [ToolCall.of("finish")]

    client, looked = Whole(), list[int]()
    remaining = len(client.responses)

    assert await WorkflowRunner(client).run(workflow(looked), "Go.") == "done"
    assert (looked, len(client.responses)) == ([1], remaining)
