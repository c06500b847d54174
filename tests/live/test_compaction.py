"""A history that is too long for a real llama.cpp: rejected, or compacted by exact counts and answered."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import httpx
import openai
import pytest

from tests.fakes.processes import daemon
from tests.live.weather import ASK_PARIS, MODEL, PARIS, TOOLS

WINDOW = 1024


@pytest.fixture(scope="module")
def client() -> Generator[openai.OpenAI]:
    """A daemon whose model has a small window."""
    own = {"THREADS": "1", "SLOTS": "1", "CONTEXT": str(WINDOW)}
    env = {f"FORGE_PROXY_BACKEND__LLAMA_SERVER__{name}": value for name, value in own.items()}
    with (
        daemon("--backend", "embedded", env=env) as process,
        openai.OpenAI(base_url=f"{process.url}/v1", api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


def admin(client: openai.OpenAI, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    url = str(client.base_url).removesuffix("/v1/")
    answer = httpx.request(method, f"{url}/admin/v1/{path}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def history() -> list[Any]:
    """Three turns with long results, then a request that the model understands."""
    messages: list[Any] = []
    for number, city in enumerate(("Berlin", "London", "Madrid")):
        function = {"name": "get_weather", "arguments": f'{{"city": "{city}", "days": 1}}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "user", "content": f"Please get the weather with city {city} and days 1."})
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        content = "weather: sunny " * (200 if number == 0 else 2)
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": content})
    return [*messages, *ASK_PARIS]


def test_a_long_history_is_rejected_unless_compaction_is_on(client: openai.OpenAI) -> None:
    admin(client, "PUT", "budget", {"mode": "backend", "overflow": "reject"})

    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=history(), tools=TOOLS)

    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("stream", [False, True])
def test_a_long_history_is_compacted_and_answered_with_a_call(client: openai.OpenAI, stream: bool) -> None:
    admin(client, "PUT", "budget", {"mode": "backend", "overflow": "compact"})
    preview = admin(client, "POST", "compaction/preview", {"messages": history(), "tools": TOOLS, "model": MODEL})

    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=history(), tools=TOOLS, temperature=0, stream=stream
    )

    used = preview["phases"][preview["used"] - 1]
    assert preview["exact"]
    assert preview["tokens"] > WINDOW > 0.75 * WINDOW >= used["tokens"]
    told = f"phase={preview['used']}; messages={len(used['cuts'])}; tokens={preview['tokens']}->{used['tokens']}"
    assert raw.headers["x-forge-compacted"] == told
    answer: Any = raw.parse()
    if not stream:
        (call,) = answer.choices[0].message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", PARIS)
    else:
        deltas = [choice.delta for chunk in answer for choice in chunk.choices]
        assert next(call.function.name for delta in deltas for call in delta.tool_calls or []) == "get_weather"
