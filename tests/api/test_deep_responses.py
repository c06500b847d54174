"""A response that is nested too deeply to be forwarded is a fault of the model and is retried."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.chat import ModelCall
from forge_proxy.wire.backends.ollama.request import OllamaRequestOptions, encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, chat

TOOL: JsonDict = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
BODY: JsonDict = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def deep(depth: int) -> Said:
    delta = {"role": "assistant", "content": "hi", "annotations": nested(depth)}
    return Said(events=[{"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}])


@both
async def test_a_response_nested_too_deeply_is_retried(stream: bool) -> None:
    answer = await chat([deep(300), Said(calls=(("f", "{}"),))], BODY, stream=stream)

    assert (answer.status, answer.calls, answer.attempts) == (200, [("f", {})], 2)


@both
@pytest.mark.parametrize("depth", [260, 900])
async def test_after_all_retries_it_is_a_502(stream: bool, depth: int) -> None:
    answer = await chat([deep(depth)] * 8, BODY, stream=stream)

    assert answer.status == 502
    assert answer.error
    assert answer.error["code"] == "response_too_deep"


async def test_a_response_that_passes_through_has_no_nesting_limit() -> None:
    answer = await chat([deep(900)], {**BODY, "model": "scripted", "tools": []}, stream=True)

    assert (answer.status, answer.text) == (200, "hi")


async def test_a_request_nested_too_deeply_is_a_400() -> None:
    answer = await chat([], {**BODY, "metadata": nested(400)})

    assert answer.status == 400
    assert answer.error
    assert answer.error["type"] == "invalid_request_error"


async def test_ollama_gets_arguments_nested_too_deeply_as_text() -> None:
    arguments = json.dumps({"a": nested(600)})
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    told: list[Any] = [
        *BODY["messages"],
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c"},
    ]
    body: JsonDict = {**BODY, "messages": told}
    request = decode_request(body)

    said = encode_call(ModelCall(request, stream=True), OllamaRequestOptions(), None)

    assert json.loads(json.dumps(said))["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"_raw": arguments}
