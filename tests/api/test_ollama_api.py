"""Ollama's API over a scripted model server: chat and generate, streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from ollama import ChatResponse, GenerateResponse

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.clients.ollama.request import decode_chat
from tests.api.test_surfaces import PAUSE, sends
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock

TOOL: JsonDict = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASK: JsonDict = {"model": "scripted", "messages": [{"role": "user", "content": "weather?"}]}
GUARDED: JsonDict = {**ASK, "tools": [TOOL]}
NATIVE = Said(calls=(("get_weather", '{"city": "Paris"}'),))
IN_PROSE = Said(text='{"name": "get_weather", "arguments": {"city": "Paris"}}')
CALL = {"name": "get_weather", "arguments": {"city": "Paris"}}


@dataclass(frozen=True)
class Sent:
    """A response, its lines, and what the model server received."""

    response: httpx.Response
    asked: list[JsonDict]

    @property
    def lines(self) -> list[JsonDict]:
        return [json.loads(line) for line in self.response.text.splitlines()]

    @property
    def text(self) -> str:
        return "".join(line["message"]["content"] for line in self.lines)

    @property
    def calls(self) -> list[JsonDict]:
        return [call for line in self.lines for call in line["message"].get("tool_calls", [])]


async def send(
    script: Sequence[Said | Exception],
    body: Any,
    path: str = "/api/chat",
    *,
    cut: int = 1_000_000,
    headers: Mapping[str, str] | None = None,
    **server: Any,
) -> Sent:
    http = ScriptedHttp(script, cut)
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None))
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig(**server)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return Sent(await client.post(path, json=body, headers=dict(headers or {})), http.asked)


async def test_text_is_streamed_by_default_as_lines_that_end_with_the_counts() -> None:
    sent = await send([Said(text="It is sunny.")], ASK)

    assert sent.response.headers["content-type"] == "application/x-ndjson"
    assert sent.text == "It is sunny."
    assert [line["done"] for line in sent.lines] == [False] * (len(sent.lines) - 1) + [True]
    assert sent.lines[-1]["done_reason"] == "stop"
    assert (sent.lines[-1]["prompt_eval_count"], sent.lines[-1]["eval_count"]) == (10, 5)
    assert sent.lines[-1]["total_duration"] > 0
    assert {line["model"] for line in sent.lines} == {"scripted"}
    for line in sent.lines:
        ChatResponse.model_validate(line, strict=True)


async def test_a_whole_response_has_the_same_text_and_counts_as_a_stream() -> None:
    sent = await send([Said(text="It is sunny.", reasoning="Look outside.")], {**ASK, "stream": False})

    whole = ChatResponse.model_validate_json(sent.response.text, strict=True)
    assert (whole.message.content, whole.message.thinking) == ("It is sunny.", "Look outside.")
    assert (whole.done, whole.done_reason, whole.prompt_eval_count, whole.eval_count) == (True, "stop", 10, 5)


@pytest.mark.parametrize("said", [NATIVE, IN_PROSE], ids=["native", "in prose"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_guarded_call_has_an_object_as_arguments(said: Said, stream: bool) -> None:
    sent = await send([said], {**GUARDED, "stream": stream})

    (call,) = sent.calls
    assert {key: call["function"][key] for key in CALL} == CALL
    assert call["id"]
    assert sent.text == ""
    assert sent.lines[-1]["done_reason"] == "stop"


async def test_the_outcome_of_a_stream_is_in_its_last_line() -> None:
    streamed = await send([IN_PROSE], GUARDED)
    whole = await send([IN_PROSE], {**GUARDED, "stream": False})

    last = streamed.lines[-1]
    assert (last["x-forge-outcome"], last["x-forge-attempts"]) == ("rescued", 1)
    assert last["x-forge-interventions"][0].startswith("rescued get_weather")
    assert whole.response.headers["x-forge-outcome"] == "rescued"


@pytest.mark.parametrize("cut", [1, 2, 7, 40])
@pytest.mark.parametrize(
    ("said", "body"),
    [(NATIVE, GUARDED), (IN_PROSE, GUARDED), (Said(text="It is sünny.", reasoning="Löok."), ASK)],
    ids=["native call", "call in prose", "reasoning and text"],
)
async def test_a_stream_is_the_same_at_any_chunk_boundaries_of_the_model_server(
    said: Said, body: JsonDict, cut: int
) -> None:
    at_once = await send([said], body, headers={"x-request-id": "r"})
    in_pieces = await send([said], body, headers={"x-request-id": "r"}, cut=cut)

    assert (in_pieces.text, in_pieces.calls) == (at_once.text, at_once.calls)
    assert in_pieces.lines[-1].keys() == at_once.lines[-1].keys()
    for line in in_pieces.lines:
        ChatResponse.model_validate(line, strict=True)


async def test_generate_responds_to_a_prompt() -> None:
    body = {"model": "scripted", "prompt": "Hi", "system": "Be short.", "images": ["iVBORw0KGgo="]}
    streamed = await send([Said(text="Hello.")], body, "/api/generate")
    whole = await send([Said(text="Hello.", reasoning="Greet.")], {**body, "stream": False}, "/api/generate")

    assert "".join(line["response"] for line in streamed.lines) == "Hello."
    for line in streamed.lines:
        GenerateResponse.model_validate(line, strict=True)
    found = GenerateResponse.model_validate_json(whole.response.text, strict=True)
    assert (found.response, found.thinking, found.done_reason) == ("Hello.", "Greet.", "stop")
    system, user = streamed.asked[0]["messages"]
    assert system == {"role": "system", "content": "Be short."}
    assert user["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize(("keep_alive", "reason"), [(None, "load"), ("5m", "load"), (0, "unload"), ("0s", "unload")])
async def test_a_request_without_a_prompt_loads_or_unloads_the_model(path: str, keep_alive: Any, reason: str) -> None:
    sent = await send([], {"model": "scripted", "keep_alive": keep_alive}, path)

    (line,) = sent.lines
    assert (line["done"], line["done_reason"], sent.asked) == (True, reason, [])


async def test_what_only_an_ollama_can_do_is_dropped_and_reported_for_other_servers() -> None:
    options = {"num_ctx": 8192, "num_predict": 50, "temperature": 0.1, "mirostat": 1, "stop": ["END"]}
    body = {**ASK, "stream": False, "options": options, "keep_alive": "5m", "think": False, "format": "json"}
    sent = await send([Said(text="{}")], body)

    (asked,) = sent.asked
    expected = {
        "max_tokens": 50,
        "temperature": 0.1,
        "mirostat": 1,
        "stop": ["END"],
        "response_format": {"type": "json_object"},
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert {key: asked[key] for key in expected} == expected
    assert not {"options", "keep_alive", "think", "format"} & set(asked)
    reported = sent.response.headers["x-forge-interventions"]
    assert "dropped options.num_ctx: " in reported
    assert "dropped keep_alive: " in reported


async def test_log_probabilities_have_ollamas_form() -> None:
    token = {"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": [{"token": "Hi", "logprob": -0.1}]}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    body = {"id": "1", "choices": [{**choice, "logprobs": {"content": [token]}}]}
    sent = await send([Said(events=[body])], {**ASK, "stream": False, "logprobs": True, "top_logprobs": 1})

    assert (sent.asked[0]["logprobs"], sent.asked[0]["top_logprobs"]) == (True, 1)
    assert sent.response.json()["logprobs"] == [token]
    ChatResponse.model_validate_json(sent.response.text, strict=True)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_durations_are_those_of_the_model_server_if_it_reports_them(stream: bool) -> None:
    timings = {"prompt_ms": 12.5, "predicted_ms": 30.25}
    choice = {"index": 0, "finish_reason": "stop"}
    whole = {"choices": [{**choice, "message": {"role": "assistant", "content": "Hi"}}], "timings": timings}
    chunk = {"choices": [{**choice, "delta": {"content": "Hi"}}], "timings": timings}
    sent = await send([Said(events=[chunk if stream else whole])], {**ASK, "stream": stream})

    last = sent.lines[-1]
    assert (last["prompt_eval_duration"], last["eval_duration"]) == (12_500_000, 30_250_000)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_error_is_an_object_with_a_text(stream: bool) -> None:
    busy = Said(status=429, body={"error": {"message": "slow down", "type": "busy"}})
    sent = await send([busy], {**ASK, "stream": stream})

    assert (sent.response.status_code, sent.response.json()) == (429, {"error": "slow down"})


async def test_an_error_in_mid_stream_is_the_last_line() -> None:
    sent = await send([Said(text="It is sunny.", breaks_off=True)], ASK, stream_errors="event")

    assert sent.lines[0]["message"]["content"]
    assert list(sent.lines[-1]) == ["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/api/chat", {"messages": [{"role": "user", "content": 3}]}, 400, "messages[0].content"),
        ("/api/chat", {**ASK, "format": 3}, 400, "format"),
        ("/api/chat", {**ASK, "think": "a lot"}, 400, "think"),
        ("/api/chat", {**ASK, "options": []}, 400, "options"),
        ("/api/chat", {**ASK, "options": {"temperature": "hot"}}, 400, "options.temperature"),
        ("/api/chat", {**ASK, "options": {"stop": 3}}, 400, "options.stop"),
        ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": [3]}]}, 400, "messages[0].images[0]"),
        ("/api/chat", {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, 400, "tool_calls[0].function"),
        ("/api/generate", {"prompt": "def f(", "suffix": "return 1"}, 400, "/infill"),
        ("/api/generate", {"prompt": "x", "raw": True}, 400, "/v1/completions"),
        ("/api/generate", {"prompt": "x", "template": "{{ .Prompt }}"}, 400, "template"),
        ("/api/generate", {"prompt": "x", "context": [1, 2]}, 400, "/api/chat"),
        ("/api/nowhere", {}, 404, "/api/nowhere"),
    ],
)
async def test_an_invalid_request_is_refused_with_its_field(path: str, body: Any, status: int, says: str) -> None:
    sent = await send([], body, path)

    assert sent.response.status_code == status
    assert says in sent.response.json()["error"]


async def test_a_key_is_needed_if_keys_are_set() -> None:
    refused = await send([], ASK, api_keys=["k" * 8])
    accepted = await send([NATIVE], ASK, api_keys=["k" * 8], headers={"authorization": f"Bearer {'k' * 8}"})

    assert (refused.response.status_code, list(refused.response.json())) == (401, ["error"])
    assert accepted.response.status_code == 200


async def test_the_heartbeat_of_the_ollama_command_needs_no_key() -> None:
    backend = OpenAICompatible("http://scripted", ScriptedHttp([]))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None))
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig.model_validate({"api_keys": ["k" * 8]})))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.head("/")

    assert (response.status_code, response.content) == (200, b"")


async def test_a_long_silence_is_filled_with_lines_without_text() -> None:
    encoder = decode_chat(ASK).build_stream_encoder("r", 0)
    steps = (PAUSE, PAUSE, Chunk((Delta(text="It is"),)), PAUSE, Report(Outcome.PASSTHROUGH))

    sent = await sends(*steps, encoder=encoder)

    lines = [ChatResponse.model_validate_json(message["body"], strict=True) for message in sent[1:]]
    texts = [line.message.content for line in lines]
    begun = texts.index("It is")
    assert (begun > 0, set(texts[:begun]), set(texts[begun + 1 :])) == (True, {""}, {""})
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
