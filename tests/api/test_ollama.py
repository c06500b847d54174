"""Requests through the whole application to Ollama, which has no tool_choice and loses calls in its own ways."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.api.test_mistakes import ASK, PARIS, PARIS_TEXT
from tests.fakes.ollama import FakeOllama, JsonDict
from tests.fakes.scripted import StillClock

TAGS = {"/api/tags": {"models": [{"model": "m:latest", "digest": "1"}]}, "show m:latest": {}}
LEAKED = "<tool_call>\n" + json.dumps({"name": "get_weather", "parameters": PARIS}) + "\n</tool_call>"
CALL: JsonDict = {"function": {"name": "get_weather", "arguments": PARIS}}


def says(content: str = "", *calls: JsonDict, **fields: Any) -> JsonDict:
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    return {"model": "m", "message": message, "done": True, "prompt_eval_count": 10, "eval_count": 5, **fields}


async def post(script: list[JsonDict], body: JsonDict) -> tuple[httpx.Response, FakeOllama]:
    left = iter(script)
    fake = FakeOllama(lambda _: (200, next(left)), answers={**TAGS})
    backend = fake.adapter()
    app = create_app(Engine(EngineConfig(backend, StillClock(), fake.heard.append)), backend, ServerConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return await client.post("/v1/chat/completions", json=body), fake


def calls_in(response: httpx.Response) -> list[tuple[str, Any]]:
    calls = response.json()["choices"][0]["message"].get("tool_calls") or []
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ([says("", CALL)], "clean"),
        (
            [says("<tool_call>\n" + json.dumps({"name": "get_weather", "parameters": PARIS}) + "\n</tool_call>")],
            "rescued",
        ),
        ([says(""), says("", CALL)], "retried"),  # its parser took what it could not read for nothing
        ([says("", {"function": {"name": "get_weather", "arguments": {}}}), says("", CALL)], "retried"),
    ],
)
async def test_a_call_is_delivered(script: list[JsonDict], outcome: str) -> None:
    response, _ = await post(script, ASK)

    assert calls_in(response) == [("get_weather", PARIS)]
    assert response.headers["x-forge-outcome"] == outcome
    assert response.json()["usage"]["prompt_tokens"] == 10


async def test_a_required_call_is_requested_and_in_the_end_enforced() -> None:
    held = says('{"name": "get_weather", "arguments": ' + PARIS_TEXT + "}")

    response, fake = await post([says("no"), says("no"), says("no"), held], {**ASK, "tool_choice": "required"})

    assert calls_in(response) == [("get_weather", PARIS)]
    assert ["format" in asked for asked in fake.asked] == [False, False, False, True]
    assert all(asked["tools"] == fake.asked[0]["tools"] for asked in fake.asked)


async def test_with_tool_choice_none_no_call_is_delivered() -> None:
    response, fake = await post([says("", CALL)], {**ASK, "tool_choice": "none"})

    assert calls_in(response) == []
    assert "get_weather" in response.json()["choices"][0]["message"]["content"]
    assert "tools" not in fake.asked[0]


async def test_a_stream_passes_through_in_openai_format() -> None:
    response, _ = await post([says("Hello")], {"model": "other", "messages": ASK["messages"], "stream": True})

    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert {(event["model"], event["object"]) for event in events} == {("other", "chat.completion.chunk")}
    assert [event["choices"][0]["delta"].get("content") for event in events] == ["Hello", None]
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert response.text.endswith("data: [DONE]\n\n")


async def test_a_model_is_known_without_its_usual_tag() -> None:
    _, fake = await post([says("hi")], {"model": "m", "messages": ASK["messages"]})

    assert fake.asked[0]["model"] == "m"
