"""The real anthropic SDK, a real model, and the model server's prefix cache from turn to turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import anthropic
import pytest
from anthropic.types import Message, MessageParam, ToolParam

from tests.fakes.processes import Process, daemon
from tests.live.weather import MODEL, PARIS

CITIES = ["Paris", "Berlin", "London", "Madrid", "Rome", "Oslo", "Vienna", "Lisbon", "Tokyo", "Cairo"]
TOOL: ToolParam = {
    "name": "get_weather",
    "description": "get the weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}


@pytest.fixture(scope="module")
def process() -> Generator[Process]:
    """A daemon whose model has one slot: no other conversation replaces it in the cache."""
    env = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1", "FORGE_PROXY_BACKEND__LLAMA_SERVER__SLOTS": "1"}
    with daemon("--backend", "embedded", env=env) as process:
        yield process


@pytest.fixture
def client(process: Process) -> Generator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=process.url, auth_token="none", max_retries=0, timeout=60) as client:
        yield client


def ask(client: anthropic.Anthropic, messages: list[MessageParam], turn: int) -> tuple[Message, int]:
    """The response to a request like Claude Code's, and the input tokens of the first event."""
    attribution = f"x-anthropic-billing-header: cc_version=2.1; cch={turn:05x};"
    with client.messages.stream(
        model=MODEL, max_tokens=200, messages=messages, tools=[TOOL], extra_body={"temperature": 0},
        system=[{"type": "text", "text": attribution}, {"type": "text", "text": "You are an agent."}],
    ) as stream:  # fmt: skip
        begun = next(event.message.usage.input_tokens for event in stream if event.type == "message_start")
        return stream.get_final_message(), begun


def test_each_turn_of_claude_code_begins_with_what_was_read_before(client: anthropic.Anthropic) -> None:
    messages: list[MessageParam] = []
    prompts: list[int] = []
    cached: list[int] = []
    for turn, city in enumerate(CITIES):
        messages.append({"role": "user", "content": f"Please get the weather with city {city} and days 3."})

        message, begun = ask(client, messages, turn)

        (block,) = message.content
        assert block.type == "tool_use"
        assert block.input == {**PARIS, "city": city}
        usage = message.usage
        cached.append(usage.cache_read_input_tokens or 0)
        prompts.append(usage.input_tokens + cached[-1])
        assert begun == prompts[-1]
        result: Any = {"type": "tool_result", "tool_use_id": block.id, "content": "weather: sunny"}
        messages.append({"role": "assistant", "content": message.content})
        messages.append({"role": "user", "content": [result]})

    assert all(now >= before for now, before in zip(cached[1:], prompts, strict=False))


def test_tokens_are_counted_by_the_model_server(client: anthropic.Anthropic) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": "Please get the weather with city Paris and days 3."}]

    raw = client.messages.with_raw_response.count_tokens(model=MODEL, messages=messages, tools=[TOOL])
    message = client.messages.create(
        model=MODEL, max_tokens=200, messages=messages, tools=[TOOL], extra_headers={"x-forge-guardrails": "off"}
    )

    assert "x-forge-interventions" not in raw.headers
    usage = message.usage
    assert raw.parse().input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
