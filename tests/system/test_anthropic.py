"""The daemon in front of a server that speaks Anthropic's Messages protocol, the official SDK between them."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import httpx
import openai
import pytest

from tests.fakes.processes import Process, closed_port, command, daemon, messages_server, until
from tests.system.asking import PATH, error

USER = {"role": "user", "content": "hi"}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather.get",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
KEY = {"FORGE_PROXY_BACKEND__API_KEY": "its-own"}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def server() -> Generator[Process]:
    with messages_server() as process:
        yield process


@pytest.fixture(scope="module")
def proxy(server: Process) -> Generator[Process]:
    with daemon("--backend", "anthropic", "--backend-url", server.url, env=KEY) as process:
        yield process


@pytest.fixture(scope="module")
def client(proxy: Process) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        yield client


def final(client: openai.OpenAI, *, stream: bool, **body: Any) -> Any:
    """The response as the SDK assembles it."""
    if not stream:
        return client.chat.completions.create(**body)
    with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as events:
        for _ in events:
            pass
        return events.get_final_completion()


@both
def test_text_passes_through_with_its_usage(client: openai.OpenAI, stream: bool) -> None:
    answer = final(client, stream=stream, model="says", messages=[USER], max_tokens=50)

    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("one two", "stop")
    assert (answer.id, answer.model) == ("msg_1", "says")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (7, 3, 10)


@both
def test_an_invalid_call_is_corrected_and_the_second_attempt_delivered(
    client: openai.OpenAI, server: Process, stream: bool
) -> None:
    answer = final(client, stream=stream, model="calls", messages=[USER], tools=[WEATHER])

    (choice,) = answer.choices
    (call,) = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather.get", {"city": "Oslo"})
    assert choice.finish_reason == "tool_calls"
    asked = server.wait_for("asked", model="calls")
    assert asked["version"]
    assert [tool["name"] for tool in asked["body"]["tools"]] == ["weather_get", "respond"]
    assert asked["body"]["max_tokens"] == 64000  # the model's own limit, because the client sets none


@both
def test_the_history_that_a_client_sends_back_is_accepted(client: openai.OpenAI, stream: bool) -> None:
    first = final(client, stream=stream, model="calls", messages=[USER], tools=[WEATHER])
    said = first.choices[0].message.model_dump(exclude_none=True)
    result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "5 °C"}
    # of the delivered response, and not of the invalid one before
    assert said["thinking_blocks"] == [{"index": 0, "type": "thinking", "thinking": "hm", "signature": "s"}]

    second = final(client, stream=False, model="says", messages=[USER, said, result])

    assert second.choices[0].message.content == "one two"


def test_a_temperature_that_a_model_rejects_is_omitted(proxy: Process, client: openai.OpenAI) -> None:
    answer = final(client, stream=False, model="has-no-temperature", messages=[USER], temperature=0.2)

    assert answer.choices[0].message.content == "one two"
    event = "request format adapted"
    line = proxy.wait_for(event, model="has-no-temperature")
    assert line["changes"] == ["no temperature"]
    assert line["request_id"]


def test_a_token_limit_over_the_window_is_lowered_to_the_room_left(server: Process, client: openai.OpenAI) -> None:
    answer = final(client, stream=False, model="has-little-room", messages=[USER])

    assert answer.choices[0].message.content == "one two"
    until(lambda: '"max_tokens": 1000' in server.printed, "the request with the lower limit is printed")


@both
@pytest.mark.parametrize(
    ("model", "status", "code", "words"),
    [
        ("overflows", 400, "context_length_exceeded", "200000 tokens. However, your messages resulted in 205000"),
        ("is-busy", 429, None, "slow down"),
    ],
)
def test_errors_are_what_clients_act_on(
    proxy: Process, stream: bool, model: str, status: int, code: str | None, words: str
) -> None:
    response = httpx.post(proxy.url + PATH, json={"model": model, "messages": [USER], "stream": stream})

    assert (response.status_code, error(response)["code"]) == (status, code)
    assert words in error(response)["message"]
    if status == 429:
        assert (response.headers["retry-after"], response.headers["request-id"]) == ("7", "req_1")


def test_an_error_in_mid_stream_is_not_a_clean_end(proxy: Process) -> None:
    body = {"model": "is-overloaded-midway", "messages": [USER], "stream": True}

    with pytest.raises(httpx.RemoteProtocolError), httpx.stream("POST", proxy.url + PATH, json=body) as response:
        response.read()


@pytest.mark.parametrize("tools", [{}, {"tools": [WEATHER]}], ids=["passed-through", "guarded"])
@pytest.mark.parametrize("model", ["stalls", "hangs"])
def test_a_client_that_disconnects_ends_the_generation(
    proxy: Process, server: Process, model: str, tools: dict[str, object]
) -> None:
    body = {"model": model, "messages": [USER], "stream": model == "stalls", **tools}
    before = server.printed.count('"left"')

    with pytest.raises(httpx.TimeoutException):
        httpx.post(proxy.url + PATH, json=body, timeout=httpx.Timeout(10, read=0.5))

    while server.printed.count('"left"') == before:
        server.wait_for("left", model=model)


def test_a_silent_server_is_a_504(server: Process) -> None:
    env = {**KEY, "FORGE_PROXY_BACKEND__SILENCE_SECONDS": "0.2"}
    with daemon("--backend", "anthropic", "--backend-url", server.url, env=env) as proxy:
        response = httpx.post(proxy.url + PATH, json={"model": "hangs", "messages": [USER]})

    assert (response.status_code, error(response)["code"]) == (504, "backend_timeout")


def test_a_server_that_is_down_is_a_502_with_its_url() -> None:
    with (
        closed_port() as port,
        daemon("--backend", "anthropic", "--backend-url", f"http://127.0.0.1:{port}", env=KEY) as proxy,
    ):
        response = httpx.post(proxy.url + PATH, json={"model": "says", "messages": [USER]})

    assert (response.status_code, error(response)["code"]) == (502, "backend_unreachable")
    assert f"http://127.0.0.1:{port}" in error(response)["message"]


def test_models_are_listed_with_their_windows(proxy: Process) -> None:
    listed = httpx.get(proxy.url + "/v1/models").json()["data"]

    assert {(model["id"], model["context_length"]) for model in listed} >= {("says", 200000), ("calls", 200000)}


def test_check_reports_whether_the_key_is_accepted(server: Process) -> None:
    options = ("check", "--backend", "anthropic", "--backend-url", server.url, "--port", "0")
    good, bad = command(*options, env=KEY), command(*options, env={"FORGE_PROXY_BACKEND__API_KEY": "wrong"})

    assert (good.code, bad.code) == (0, 1)
    assert "says (200000 tokens)" in good.out
    assert "invalid x-api-key" in bad.out
    assert "backend.api_key" in bad.out
