"""When the first event of a stream is sent, what it reports of the prompt, and the keepalives in silences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.types import Message

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.prompt_size import with_prompt_size
from forge_proxy.api.streaming import StreamingAnswer
from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk, Delta, PromptProgress
from forge_proxy.engine.answer import AnswerEvent
from forge_proxy.engine.context_fitting import PromptSize
from forge_proxy.wire.clients.messages.encoder import DecodedMessagesRequest
from tests.api.messages.world import PLAIN, JsonDict, send
from tests.fakes.message_events import assemble, read_events
from tests.fakes.says import Said

PAUSE = object()
"""Where the engine waits until something is sent."""
TEXT = Chunk((Delta(text="Yes."),), head={"model": "m"})
DONE = Report(Outcome.PASSTHROUGH)


async def counted(tokens: int) -> PromptSize:
    return PromptSize(tokens, exact=True)


async def never() -> PromptSize:
    return await asyncio.get_running_loop().create_future()


async def unknown() -> PromptSize:
    raise BackendUnreachable("http://m", "refused")


async def events_of(*steps: object, measure: Any = None) -> list[JsonDict]:
    """The events that a client receives while the engine goes through these steps."""
    sent: list[Message] = []
    more = asyncio.Event()

    async def answer() -> AsyncGenerator[AnswerEvent]:
        for step in steps:
            if step is PAUSE:
                more.clear()
                await more.wait()
            else:
                assert isinstance(step, Chunk | Report)
                yield step

    async def record(message: Message) -> None:
        sent.append(message)
        if message.get("body"):
            more.set()

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    encoder = DecodedMessagesRequest.decode({**PLAIN, "stream": True}).build_stream_encoder("req_1", 0)
    measured = with_prompt_size(answer(), measure or (lambda: counted(77)), encoder)
    config = ServerConfig(first_event_seconds=0.01, keepalive_seconds=0.01)
    async with asyncio.timeout(30):
        await StreamingAnswer(measured, encoder, config, {})({}, receive, record)
    return read_events(b"".join(message.get("body", b"") for message in sent).decode())


def input_tokens(events: list[JsonDict]) -> int:
    return events[0]["message"]["usage"]["input_tokens"]


async def test_the_first_event_has_the_counted_tokens_of_the_prompt() -> None:
    events = await events_of(TEXT, DONE)

    assert input_tokens(events) == 77
    assert assemble(events)["content"] == [{"type": "text", "text": "Yes."}]


async def test_silence_is_filled_with_pings_after_the_first_event() -> None:
    events = await events_of(PAUSE, PAUSE, TEXT, PAUSE, DONE)

    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert input_tokens(events) == 77
    assert "ping" in kinds[kinds.index("content_block_delta") :]
    assert assemble(events)["stop_reason"] == "end_turn"


async def test_progress_of_the_prompt_is_no_event() -> None:
    events = await events_of(Chunk(progress=PromptProgress(1, 2)), TEXT, DONE)

    assert [event["type"] for event in events][:2] == ["message_start", "content_block_start"]


async def test_a_count_that_takes_too_long_is_an_estimate() -> None:
    events = await events_of(TEXT, DONE, measure=never)

    assert 0 < input_tokens(events) < 77


async def test_a_count_that_fails_is_an_estimate() -> None:
    events = await events_of(TEXT, DONE, measure=unknown)

    assert 0 < input_tokens(events) < 77


async def test_no_count_is_left_running() -> None:
    await events_of(TEXT, DONE, measure=never)

    assert "prompt size" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_the_end_has_the_tokens_that_the_server_reports() -> None:
    answer = await send([Said(text="Yes.")], PLAIN, stream=True)

    (end,) = [event for event in answer.events if event["type"] == "message_delta"]
    assert (end["usage"]["input_tokens"], end["usage"]["output_tokens"]) == (10, 5)
