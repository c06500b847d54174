"""Tools in the prompt, with a real llama.cpp. The tiny model was trained on another wording."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import openai
import pytest

from tests.fakes.processes import daemon
from tests.live.weather import ASK_PARIS, MODEL, PARIS, TOOLS


@pytest.fixture(scope="module")
def client() -> Generator[openai.OpenAI]:
    """A daemon whose model has one slot: no other conversation replaces it in the cache."""
    env = {
        "FORGE_PROXY_BACKEND__TOOLS": "prompt",
        "FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1",
        "FORGE_PROXY_BACKEND__LLAMA_SERVER__SLOTS": "1",
    }
    with (
        daemon("--backend", "embedded", env=env) as process,
        openai.OpenAI(base_url=f"{process.url}/v1", api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


def asked(client: openai.OpenAI, messages: list[Any], **fields: Any) -> tuple[Any, dict[str, int]]:
    """The message of the response, and the server's figures for its prompt."""
    answer: Any = client.chat.completions.create(
        model=MODEL, temperature=0, messages=messages, tools=TOOLS[:1], max_tokens=200, **fields
    )
    return answer.choices[0].message, answer.timings


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_model_calls_and_the_prompt_is_read_once(client: openai.OpenAI, choice: str) -> None:
    first, before = asked(client, ASK_PARIS, tool_choice=choice)
    (call,) = first.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", PARIS)

    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    said = {"role": "assistant", "content": None, "tool_calls": [call.model_dump(exclude_none=True)]}
    # The same choice: one that requires a call adds a sentence to the system prompt, before the conversation.
    _, after = asked(client, [*ASK_PARIS, said, result], tool_choice=choice)

    assert after["cache_n"] >= before["cache_n"] + before["prompt_n"]
