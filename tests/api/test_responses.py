"""`/v1/responses` through the whole application: the same guardrails as for chat completions, in the API's format."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.types import Message

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.responses import RESPONSES
from forge_proxy.api.streaming import StreamingAnswer
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.errors import Overloaded
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.fakes.response_events import final_response, read_events, validate_response
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock
from tests.wire.clients.responses.recorded import RECORDED_REQUESTS

JsonDict = dict[str, Any]
PARAMETERS: JsonDict = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: JsonDict = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}
PATCH: JsonDict = {"type": "custom", "name": "apply_patch", "description": "Edit files."}
DOCS: JsonDict = {"type": "namespace", "name": "docs", "description": "Docs.", "tools": [{**WEATHER, "name": "find"}]}
ASK: JsonDict = {"model": "scripted", "input": "What is the weather in Paris?"}
GUARDED: JsonDict = {**ASK, "tools": [WEATHER, PATCH, DOCS]}
PARIS = '{"city": "Paris"}'
OVERFLOW = Said(
    status=400,
    body={"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192,
                    "message": "the request exceeds the available context size"}},
)  # fmt: skip


@asynccontextmanager
async def app(
    script: Sequence[Said | Exception], cut: int = 1_000_000, policy: GuardPolicy | None = None, **server: Any
) -> AsyncGenerator[tuple[httpx.AsyncClient, ScriptedHttp]]:
    http = ScriptedHttp(script, cut)
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), [].append, guardrails=policy or GuardPolicy()))
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig(**server)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client, http


async def post(
    script: Sequence[Said | Exception],
    body: JsonDict,
    *,
    cut: int = 1_000_000,
    headers: Mapping[str, str] | None = None,
    **server: Any,
) -> httpx.Response:
    async with app(script, cut, GuardPolicy(text_responses="accept"), **server) as (client, _):
        return await client.post("/v1/responses", json=body, headers=dict(headers or {}))


async def stream(script: Sequence[Said | Exception], body: JsonDict, **options: Any) -> list[JsonDict]:
    response = await post(script, {**body, "stream": True}, **options)
    assert response.headers["content-type"].startswith("text/event-stream")
    return read_events(response.content)


MISTAKES: dict[str, tuple[tuple[Said, ...], str]] = {
    "native": ((Said(calls=(("get_weather", PARIS),)),), "clean"),
    "as text": ((Said(f'<tool_call>{{"name": "get_weather", "arguments": {PARIS}}}</tool_call>'),), "rescued"),
    "another name": ((Said(calls=(("Get_Weather", PARIS),)),), "repaired"),
    "no argument, then a call": (
        (Said(calls=(("get_weather", "{}"),)), Said(calls=(("get_weather", PARIS),))), "retried",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_calls_are_guarded_streamed_and_whole(mistake: str) -> None:
    script, outcome = MISTAKES[mistake]
    whole = await post(script, GUARDED)
    streamed = final_response(await stream(script, GUARDED))

    (item,) = whole.json()["output"]
    assert (item["type"], item["name"]) == ("function_call", "get_weather")
    assert json.loads(item["arguments"]) == {"city": "Paris"}
    assert whole.headers["x-forge-outcome"] == outcome
    assert without_ids(streamed) == without_ids(whole.json())
    validate_response(whole.json())


async def test_text_without_tools_is_a_message() -> None:
    whole = await post([Said("It is sunny.", reasoning="Hm.")], ASK)

    reasoning, message = whole.json()["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert message["content"][0]["text"] == "It is sunny."
    assert whole.json()["usage"]["input_tokens"] == 10


async def test_the_model_receives_functions_and_the_client_its_own_tools() -> None:
    calls = (("apply_patch", '{"input": "*** Begin Patch"}'), ("docs__find", PARIS))
    async with app([Said(calls=calls)]) as (client, backend):
        response = await client.post("/responses", json=GUARDED)

    (asked,) = backend.asked
    assert [tool["function"]["name"] for tool in asked["tools"]][:3] == ["get_weather", "apply_patch", "docs__find"]
    patch, find = response.json()["output"]
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "apply_patch", "*** Begin Patch")
    assert (find["type"], find["namespace"], find["name"]) == ("function_call", "docs", "find")


async def test_what_was_dropped_is_reported_streamed_and_whole() -> None:
    body = {**GUARDED, "tools": [{"type": "web_search"}, WEATHER]}
    script = [Said(calls=(("get_weather", PARIS),))]
    responses = [await post(script, {**body, "stream": live}) for live in (False, True)]

    assert [response.headers["x-forge-interventions"] for response in responses] == [
        "dropped tools[0]: web_search is not supported"
    ] * 2


@pytest.mark.parametrize("body", RECORDED_REQUESTS.values(), ids=RECORDED_REQUESTS)
async def test_every_recorded_request_is_answered_in_its_format(body: JsonDict) -> None:
    name = next((tool["name"] for tool in body.get("tools", []) if tool["type"] == "function"), None)
    argument = {"exec_command": '{"cmd": "ls"}', "bash": '{"command": "ls"}', "read_file": '{"path": "/a"}'}
    said = Said("Done.", calls=((name, argument[name]),) if name in argument else ())

    events = read_events((await post([said] * 4, body)).content)

    output = final_response(events)["output"]
    assert [item["type"] for item in output] == ["message", *(["function_call"] if said.calls else [])]


def without_ids(value: Any) -> Any:
    """A response without what is new in each one."""
    text = re.sub(r"(?<=_)[0-9a-f]{32}", "", re.sub(r'"created_at": \d+', '"created_at": 0', json.dumps(value)))
    return json.loads(re.sub(r'("call_id": )"[0-9a-f]{9}"', r'\1""', text))


EVERYTHING = Said(
    "I look: é😀.", reasoning="The user ü asks.", calls=(("get_weather", PARIS), ("apply_patch", '{"input": "a\\nü"}'))
)


@pytest.mark.parametrize("body", [ASK, GUARDED], ids=["relayed", "guarded"])
async def test_the_stream_is_the_same_wherever_the_backends_bytes_are_cut(body: JsonDict) -> None:
    said = EVERYTHING if "tools" in body else Said("It is é😀.", reasoning="Hm ü.")
    at_once = without_ids(await stream([said], body))
    length = len(said.as_stream())

    for cut in (1, 2, 3, 7, 64, *range(length // 2, length, 97)):
        assert without_ids(await stream([said], body, cut=cut)) == at_once


async def test_a_cut_response_is_incomplete() -> None:
    response = final_response(await stream([Said("It is", finish="length")], {**ASK, "max_output_tokens": 5}))

    assert (response["status"], response["incomplete_details"]["reason"]) == ("incomplete", "max_output_tokens")


async def test_an_overflow_of_a_stream_is_the_event_by_which_codex_compacts() -> None:
    events = await stream([OVERFLOW], ASK)

    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    assert final_response(events)["error"]["code"] == "context_length_exceeded"
    assert "maximum context length is 8192" in final_response(events)["error"]["message"]


async def test_an_overflow_of_a_whole_response_has_openais_status_and_code() -> None:
    response = await post([OVERFLOW], ASK)

    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize("live", [False, True])
async def test_an_error_before_the_stream_has_its_own_status(live: bool) -> None:
    busy = Said(status=429, body={"error": {"message": "slow down", "type": "busy"}})
    response = await post([busy], {**ASK, "stream": live})

    assert response.status_code == 429
    assert response.json()["error"]["message"] == "slow down"


async def test_codex_receives_a_rate_limit_as_an_event_after_which_it_retries() -> None:
    busy = Said(status=429, body={"error": {"message": "slow down", "type": "busy"}})

    events = await stream([busy], ASK, headers={"user-agent": "codex_exec/0.169.0 (Debian)"})

    assert final_response(events)["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}


async def test_a_stream_that_breaks_off_ends_with_a_failed_response() -> None:
    events = await stream([Said("It is sunny.", breaks_off=True)], ASK)

    assert final_response(events)["error"]["code"] == "server_error"


async def test_a_full_queue_within_a_stream_reports_when_to_retry() -> None:
    sent: list[Message] = []
    has_begun = asyncio.Event()
    encoder = RESPONSES.decode_request(ASK).build_stream_encoder("r", 1)

    async def answer() -> AsyncGenerator[Any]:
        await has_begun.wait()
        raise Overloaded(3, 7)
        yield

    async def record(message: Message) -> None:
        sent.append(message)
        has_begun.set()

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    config = ServerConfig(first_event_seconds=0.01, keepalive_seconds=60)
    async with asyncio.timeout(30):
        await StreamingAnswer(answer(), encoder, config, {}, RESPONSES.stream_errors)({}, receive, record)

    error = final_response(read_events(b"".join(message["body"] for message in sent[1:])))["error"]
    assert error["code"] == "rate_limit_exceeded"
    assert re.search(r"try again in (\d+)s", error["message"])


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"input": 5}, 400, None, "input"),
        ({**ASK, "background": True}, 400, None, "background"),
        ({**ASK, "previous_response_id": "resp_1"}, 400, "previous_response_not_found", "previous_response_id"),
        ({**ASK, "model": "x", "input": [{"type": "item_reference", "id": "msg_1"}]}, 400, None, "input[0].id"),
    ],
)
async def test_a_wrong_request_has_openais_error(body: JsonDict, status: int, code: str, param: str) -> None:
    response = await post([], body)

    assert response.status_code == status
    assert (response.json()["error"]["code"], response.json()["error"]["param"]) == (code, param)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")],
)
@pytest.mark.parametrize("prefix", ["/v1/responses", "/responses"])
async def test_a_response_that_is_not_stored_is_unknown(method: str, path: str, prefix: str) -> None:
    async with app([]) as (client, _):
        response = await client.request(method, f"{prefix}/resp_1{path}")

    assert (response.status_code, response.json()["error"]["code"]) == (404, "response_not_found")


async def test_the_size_of_a_prompt_is_counted_or_estimated() -> None:
    async with app([]) as (client, _):
        short = await client.post("/v1/responses/input_tokens", json=ASK)
        long = await client.post("/v1/responses/input_tokens", json={**GUARDED, "instructions": "word " * 200})

    assert short.json()["object"] == "response.input_tokens"
    assert 0 < short.json()["input_tokens"] < 100 < long.json()["input_tokens"]
    assert short.headers["x-forge-interventions"] == "estimated the tokens of the prompt"


async def test_each_surface_gives_the_same_calls_and_text() -> None:
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
    chat = {"model": "scripted", "messages": [{"role": "user", "content": ASK["input"]}], "tools": tools}
    for script, _ in MISTAKES.values():
        async with app(script) as (client, first):
            completion = (await client.post("/v1/chat/completions", json=chat)).json()
        async with app(script) as (client, second):
            response = (await client.post("/v1/responses", json={**ASK, "tools": [WEATHER]})).json()

        calls = [call["function"] for call in completion["choices"][0]["message"]["tool_calls"]]
        items = [{"name": item["name"], "arguments": item["arguments"]} for item in response["output"]]
        assert items == calls
        assert [asked["messages"] for asked in second.asked] == [asked["messages"] for asked in first.asked]


async def test_a_stream_that_never_ends_is_limited_like_a_whole_response() -> None:
    said = Said("word " * 5000, piece=50)
    backend = OpenAICompatible("http://scripted", ScriptedHttp([said], cut=500), max_response=20_000)
    engine = Engine(EngineConfig(backend, StillClock(), [].append))
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig()), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.post("/v1/responses", json={**ASK, "stream": True})

    error = final_response(read_events(response.content))["error"]
    assert "backend.max_response_mb" in error["message"]
