"""The Messages API before Anthropic's own: what only that API understands arrives, and signed reasoning returns."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from forge_proxy.backends.anthropic import AnthropicMessages
from tests.api.messages.world import GUARDED, PARIS, PLAIN, USER, Answer, app_of, post
from tests.fakes.literal import EVENTS, LiteralTransport

JsonDict = dict[str, Any]
SIGNED: JsonDict = {"type": "thinking", "thinking": "Hm.", "signature": "EqQBCgIYAhIM"}
REDACTED: JsonDict = {"type": "redacted_thinking", "data": "Abc"}
CALL: JsonDict = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": json.loads(PARIS)}
TEXT: JsonDict = {"type": "text", "text": "Let me see."}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def as_stream(blocks: Sequence[JsonDict], stop: str = "tool_use", sequence: str | None = None) -> bytes:
    """The stream of a message of these blocks, as Anthropic's API sends it."""
    usage = {"input_tokens": 11, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4, "output_tokens": 1}
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "usage": usage,
    }
    events: list[JsonDict] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        begun = {**block, "input": {}} if block["type"] == "tool_use" else {**block, "text": "", "thinking": ""}
        deltas: list[JsonDict] = []
        match block["type"]:
            case "text":
                deltas = [{"type": "text_delta", "text": block["text"]}]
            case "thinking":
                begun["signature"] = ""
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "tool_use":
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            case _:
                begun = block
        kept = {key: value for key, value in begun.items() if key in block}
        events.append({"type": "content_block_start", "index": index, "content_block": kept})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": stop, "stop_sequence": sequence}
    events += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    return b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events)


@asynccontextmanager
async def before(said: bytes) -> AsyncGenerator[tuple[FastAPI, LiteralTransport]]:
    """The application before an API that answers each request with this stream."""
    transport = LiteralTransport([said], EVENTS)
    http = httpx2.AsyncClient(transport=transport)
    backend = AnthropicMessages("http://model", api_key="k", connect_seconds=5, silence_seconds=5, http=http)
    try:
        yield app_of(backend), transport
    finally:
        await backend.close()


async def ask(said: bytes, body: JsonDict, **headers: str) -> tuple[Answer, JsonDict]:
    """The answer, and the first request that the API received."""
    async with before(said) as (app, transport):
        answer = Answer(await post(app, body, headers=headers), [])
    return answer, next(asked for asked in transport.asked if asked and asked.get("stream"))


@both
@pytest.mark.parametrize("guardrails", ["on", "off"])
@pytest.mark.parametrize(
    "reasoning",
    [[SIGNED], [SIGNED, REDACTED], [REDACTED], [SIGNED, {**SIGNED, "thinking": "So.", "signature": "Other"}]],
    ids=["signed", "signed and redacted", "redacted", "two signed"],
)
async def test_signed_reasoning_survives_the_trip(stream: bool, guardrails: str, reasoning: list[JsonDict]) -> None:
    switches = {"x-forge-guardrails": guardrails}
    said = as_stream([*reasoning, TEXT, CALL])
    first, _ = await ask(said, {**GUARDED, "stream": stream}, **switches)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
    history = [USER, {"role": "assistant", "content": first.message["content"]}, {"role": "user", "content": [result]}]

    _, asked = await ask(said, {**GUARDED, "messages": history}, **switches)

    blocks: list[JsonDict] = asked["messages"][1]["content"]
    assert [block for block in blocks if "thinking" in block["type"]] == reasoning
    assert [block["type"] for block in blocks if "thinking" not in block["type"]] == ["text", "tool_use"]


@both
async def test_one_signed_block_is_returned_as_it_was(stream: bool) -> None:
    answer, _ = await ask(as_stream([SIGNED, REDACTED, TEXT, CALL]), {**GUARDED, "stream": stream})

    kinds = [block["type"] for block in answer.message["content"]]
    assert kinds[0] == "thinking"
    assert kinds[-2:] == ["text", "tool_use"]
    single, _ = await ask(as_stream([SIGNED, CALL]), {**GUARDED, "stream": stream})
    assert single.message["content"][0] == SIGNED


async def test_what_only_anthropics_api_understands_arrives_there() -> None:
    line = "x-anthropic-billing-header: cc_version=2.1; cch=abc;"
    body: JsonDict = {
        **GUARDED,
        "system": [{"type": "text", "text": line}, {"type": "text", "text": "Be short."}],
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
        "output_config": {"effort": "max"},
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": [{**TEXT, "cache_control": {"type": "ephemeral"}}]}],
    }

    _, asked = await ask(as_stream([TEXT], "end_turn"), body, **{"x-forge-guardrails": "off"})

    assert [block["text"] for block in asked["system"]] == [line, "Be short."]
    assert asked["thinking"] == body["thinking"]
    assert asked["output_config"] == {"effort": "max"}
    assert asked["cache_control"] == {"type": "ephemeral"}
    assert {"reasoning_effort", "chat_template_kwargs", "stream_options"}.isdisjoint(asked)


async def test_an_effort_alone_does_not_enable_thinking() -> None:
    _, asked = await ask(as_stream([TEXT], "end_turn"), {**PLAIN, "output_config": {"effort": "high"}})

    assert "thinking" not in asked


@both
async def test_the_stop_sequence_and_the_usage_are_anthropics(stream: bool) -> None:
    said = as_stream([TEXT], "stop_sequence", "###")

    answer, asked = await ask(said, {**PLAIN, "stop_sequences": ["###"], "stream": stream})

    assert asked["stop_sequences"] == ["###"]
    assert (answer.message["stop_reason"], answer.message["stop_sequence"]) == ("stop_sequence", "###")
    usage = answer.message["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (11, 20, 9)
    assert usage["cache_creation_input_tokens"] == 4


@both
async def test_a_full_window_is_reported(stream: bool) -> None:
    said = as_stream([TEXT], "model_context_window_exceeded")

    answer, _ = await ask(said, {**PLAIN, "stream": stream})

    assert answer.message["stop_reason"] == "model_context_window_exceeded"
