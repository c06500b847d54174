"""Token counts and timings of a guarded response."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.stream import Chunk, CompletionBuilder
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import ASK, RIGHT, both
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock, chat


@both
async def test_tokens_of_all_attempts_are_reported_beside_the_usage_of_the_delivered_one(stream: bool) -> None:
    body = {**ASK, "stream_options": {"include_usage": True}} if stream else ASK

    answer = await chat([Said(text="Hm."), RIGHT], body, stream=stream)

    assert answer.usage == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert answer.tokens == 30


async def test_a_stream_without_requested_usage_has_none() -> None:
    answer = await chat([RIGHT], ASK, stream=True)

    assert answer.usage is None
    assert answer.tokens == 15


async def test_usage_that_a_server_omits_in_streams_is_estimated_for_a_whole_response() -> None:
    events = [chunk for chunk in RIGHT.as_chunks() if "usage" not in chunk]
    without_usage = replace(RIGHT, events=events)

    whole = await chat([without_usage], ASK)
    streamed = await chat([without_usage], {**ASK, "stream_options": {"include_usage": True}}, stream=True)

    assert whole.usage
    assert 0 < whole.usage["completion_tokens"] < whole.usage["prompt_tokens"]
    assert whole.usage["total_tokens"] == whole.usage["prompt_tokens"] + whole.usage["completion_tokens"]
    assert whole.marks == "estimated the usage, which the model server did not report"
    assert streamed.usage is None


@pytest.mark.parametrize("wanted", [True, False])
async def test_usage_in_every_chunk_is_counted_once_and_timings_are_forwarded(wanted: bool) -> None:
    sums = [{"prompt_tokens": 10, "completion_tokens": n, "total_tokens": 10 + n} for n in (1, 2, 3)]
    events = [
        {"id": "x", "choices": [{"index": 0, "delta": {"content": "It is."}, "finish_reason": None}], "usage": sums[0]},
        {
            "id": "x",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": sums[1],
            "timings": {"n": 1},
        },
        {"id": "x", "choices": [], "usage": sums[2]},
    ]
    policy = GuardPolicy(text_responses="accept")
    body: JsonDict = {**ASK, "stream": True, "stream_options": {"include_usage": wanted}}

    said = await _raw(events, body, policy)

    assert "x-forge-tokens-spent=13" in said
    assert '"timings":{"n":1}' in said
    assert ('"completion_tokens":3' in said) is wanted


async def _raw(events: list[JsonDict], body: JsonDict, policy: GuardPolicy) -> str:
    """The stream that a client gets when the backend sends these events."""
    http = ScriptedHttp([Said(events=events)])
    backend = OpenAICompatible("http://scripted", http)
    app = create_app(
        Engine(EngineConfig(backend, StillClock(), lambda _: None, guardrails=policy)), backend, ServerConfig()
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return (await client.post("/v1/chat/completions", json=body)).text


async def test_an_unguarded_stream_yields_parsed_chunks() -> None:
    backend = OpenAICompatible("http://scripted", ScriptedHttp([Said(text="It is sunny.")]))
    builder = CompletionBuilder()

    async for chunk in backend.stream(ModelCall(decode_request(ASK), stream=True)):
        builder.add(chunk)

    assert builder.completion().replies[0].text == "It is sunny."


async def test_the_tokens_of_the_respond_tool_are_counted_before_the_slot_is_released() -> None:
    running: list[int] = []

    class Counting(OpenAICompatible):
        async def count_tokens(self, call: ModelCall) -> int | None:
            running.append(engine.queue.running)
            return 8 if call.respond else 5

    backend = Counting("http://scripted", ScriptedHttp([RIGHT]))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None))

    usage = [
        event.usage
        async for event in engine.answer(decode_request(ASK), GuardPolicy(), request_id="test")
        if isinstance(event, Chunk) and event.usage
    ]

    assert running == [1, 1]
    assert usage[-1]["prompt_tokens"] == 7
