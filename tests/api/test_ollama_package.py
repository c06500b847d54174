"""The real `ollama` package against the daemon's HTTP server, and the daemon as the Ollama of another daemon."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import ollama
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.config import OllamaConfig
from forge_proxy.backends.ollama import Ollama
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, ScriptedHttp
from tests.fakes.serving import served

ASK = [{"role": "user", "content": "Weather in Paris?"}]
IN_PROSE = Said(text='{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}')


def get_weather(city: str, days: int) -> str:
    """Return the weather.

    Args:
        city: the city
        days: the number of days
    """
    return f"sunny in {city} for {days} days"


@dataclass(frozen=True)
class Daemon:
    """A served daemon, a client of it, and what its model server received."""

    url: str
    client: ollama.AsyncClient
    asked: list[JsonDict]


@asynccontextmanager
async def daemon_over(
    script: Sequence[Said | Exception] = (), model: Callable[[JsonDict], Said] | None = None
) -> AsyncGenerator[Daemon]:
    http = ScriptedHttp(script, window=8192, model=model)
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, MonotonicClock(), lambda _: None))
    async with served(create_app(engine, backend, ServerConfig())) as url, ollama.AsyncClient(host=url) as client:
        yield Daemon(url, client, http.asked)


async def test_a_chat_is_streamed_and_whole() -> None:
    said = Said(text="It is sunny.", reasoning="Look outside.")
    async with daemon_over([said, said]) as daemon:
        whole = await daemon.client.chat("scripted", ASK)
        parts = [part async for part in await daemon.client.chat("scripted", ASK, stream=True)]

    assert (whole.message.content, whole.message.thinking) == ("It is sunny.", "Look outside.")
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert "".join(part.message.thinking or "" for part in parts) == whole.message.thinking
    assert [part.done for part in parts[-2:]] == [False, True]
    for last in (whole, parts[-1]):
        assert (last.done_reason, last.prompt_eval_count, last.eval_count) == ("stop", 10, 5)
        assert last.total_duration
        assert last.eval_duration


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_tool_is_called_and_its_result_answered(stream: bool) -> None:
    async with daemon_over([IN_PROSE, respond("It is sunny.")]) as daemon:
        messages: list[ollama.Message | JsonDict] = [*ASK]
        if stream:
            parts = [p async for p in await daemon.client.chat("scripted", messages, tools=[get_weather], stream=True)]
            calls = [call for part in parts for call in part.message.tool_calls or []]
            messages.append(ollama.Message(role="assistant", tool_calls=calls))
        else:
            message = (await daemon.client.chat("scripted", messages, tools=[get_weather])).message
            calls = [*(message.tool_calls or [])]
            messages.append(message)
        result = get_weather(**calls[0].function.arguments)
        messages.append({"role": "tool", "tool_name": calls[0].function.name, "content": result})
        last = await daemon.client.chat("scripted", messages, tools=[get_weather])

    assert result == "sunny in Paris for 2 days"
    assert last.message.content == "It is sunny."
    _, call, answered = daemon.asked[1]["messages"]
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris", "days": 2}
    assert answered["tool_call_id"] == call["tool_calls"][0]["id"]


async def test_generate_streams_and_takes_a_format() -> None:
    async with daemon_over([Said(text='{"a": 1}'), Said(text="Hello.")]) as daemon:
        formed = await daemon.client.generate("scripted", "Hi", format={"type": "object"}, options={"num_predict": 9})
        parts = [part async for part in await daemon.client.generate("scripted", "Hi", stream=True)]

    assert formed.response == '{"a": 1}'
    assert "".join(part.response or "" for part in parts) == "Hello."
    assert daemon.asked[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert daemon.asked[0]["max_tokens"] == 9


async def test_the_models_are_listed_shown_and_loaded() -> None:
    async with daemon_over() as daemon:
        (listed,) = (await daemon.client.list()).models
        shown = await daemon.client.show("scripted:latest")
        (loaded,) = (await daemon.client.ps()).models

    assert listed.model == "scripted"
    assert len(listed.digest or "") == 64
    assert {"completion", "tools"} <= set(shown.capabilities or [])
    assert (shown.modelinfo or {})["llama.context_length"] == 8192
    assert (loaded.model, loaded.context_length) == ("scripted", 8192)


async def test_embeddings_are_those_of_the_model_server() -> None:
    data = {"data": [{"embedding": [1.0, 2.0]}, {"embedding": [3.0, 4.0]}], "usage": {"prompt_tokens": 4}}
    async with daemon_over([Said(events=[data]), Said(events=[data])]) as daemon:
        several = await daemon.client.embed("scripted", ["a", "b"], dimensions=2, truncate=True)
        single = await daemon.client.embeddings("scripted", "a")

    assert several.embeddings == [[1.0, 2.0], [3.0, 4.0]]
    assert several.prompt_eval_count == 4
    assert single.embedding == [1.0, 2.0]
    assert daemon.asked[0] == {"input": ["a", "b"], "dimensions": 2, "model": "scripted"}


async def test_errors_have_a_text_and_a_status() -> None:
    async with daemon_over([Said(status=400, body={"error": {"message": "too long"}})] * 2) as daemon:
        with pytest.raises(ollama.ResponseError) as failed:
            await daemon.client.chat("scripted", ASK)
        with pytest.raises(ollama.ResponseError) as not_embedded:
            await daemon.client.embed("scripted", "a")
        with pytest.raises(ollama.ResponseError) as not_pulled:
            await daemon.client.pull("llama3")

    assert (failed.value.status_code, failed.value.error) == (400, "too long")
    assert (not_embedded.value.status_code, not_embedded.value.error) == (400, "too long")
    assert not_pulled.value.status_code == 501
    assert "has no POST /api/pull" in not_pulled.value.error


@pytest.mark.parametrize("tools", [None, [get_weather]], ids=["text", "tools"])
@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_request_to_a_failing_model_server_is_retried(stream: bool, status: int, tools: Any) -> None:
    failing = Said(status=status, body={"error": {"message": "out of memory"}})
    async with daemon_over([failing, failing, IN_PROSE if tools else Said("It is sunny.")]) as daemon:
        text, calls = await _received(daemon.client, stream=stream, tools=tools)

    assert (text, calls) == (("", ["get_weather"]) if tools else ("It is sunny.", []))
    assert len(daemon.asked) == 3


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_model_server_that_keeps_failing_is_reported_with_its_own_message(stream: bool) -> None:
    failing = Said(status=503, body={"error": {"message": "no slot"}})
    async with daemon_over([failing] * 9) as daemon:
        with pytest.raises(ollama.ResponseError) as failed:
            await _received(daemon.client, stream=stream)

    assert (failed.value.status_code, failed.value.error) == (503, "no slot")
    assert len(daemon.asked) == 3


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_response_that_breaks_off_is_retried_as_long_as_nothing_was_sent(stream: bool) -> None:
    broken = Said(calls=(("get_weather", '{"city": "Paris", "days": 2}'),), breaks_off=True)
    async with daemon_over([broken, IN_PROSE]) as daemon:
        assert await _received(daemon.client, stream=stream, tools=[get_weather]) == ("", ["get_weather"])


async def test_a_stream_that_breaks_off_later_is_no_complete_response() -> None:
    async with daemon_over([Said("It is sunny.", breaks_off=True)] * 3) as daemon:
        with pytest.raises(httpx.RemoteProtocolError):
            await _received(daemon.client, stream=True)


async def _received(client: ollama.AsyncClient, *, stream: bool, tools: Any = None) -> tuple[str, list[str]]:
    """The text of a response and the tools that it calls."""
    if stream:
        parts = [part async for part in await client.chat("scripted", ASK, tools=tools, stream=True)]
    else:
        parts = [await client.chat("scripted", ASK, tools=tools)]
    calls = [call.function.name for part in parts for call in part.message.tool_calls or []]
    return "".join([part.message.content or "" for part in parts]), calls


async def test_a_daemon_can_be_the_ollama_of_another_daemon() -> None:
    script = [Said(text="It is sunny.", reasoning="Look."), IN_PROSE, Said(text="Hello.")]
    async with daemon_over(script) as inner, _daemon_before(inner.url) as client:
        parts = [part async for part in await client.chat("scripted", ASK, stream=True)]
        called = await client.chat("scripted", ASK, tools=[get_weather])
        generated = await client.generate("scripted", "Hi")
        (listed,) = (await client.list()).models
        (loaded,) = (await client.ps()).models
        shown = await client.show("scripted")
        with pytest.raises(ollama.ResponseError) as not_pulled:
            await client.pull("llama3")

    assert "".join(part.message.content or "" for part in parts) == "It is sunny."
    assert "".join(part.message.thinking or "" for part in parts) == "Look."
    assert (parts[-1].prompt_eval_count, parts[-1].eval_count) == (10, 5)
    (call,) = called.message.tool_calls or []
    assert call.function.arguments == {"city": "Paris", "days": 2}
    assert generated.response == "Hello."
    assert (listed.model, loaded.model, loaded.context_length) == ("scripted", "scripted", 8192)
    assert {"completion", "tools"} <= set(shown.capabilities or [])
    assert not_pulled.value.status_code == 501


@asynccontextmanager
async def _daemon_before(url: str) -> AsyncGenerator[ollama.AsyncClient]:
    """A client of a daemon whose backend is the Ollama at `url`."""
    http = AioHttp(connect_seconds=5, silence_seconds=30)
    backend = Ollama(url, http, OllamaConfig(), lambda _: None)
    engine = Engine(EngineConfig(backend, MonotonicClock(), lambda _: None))
    try:
        app = create_app(engine, backend, ServerConfig())
        async with served(app) as outer, ollama.AsyncClient(host=outer) as client:
            yield client
    finally:
        await http.close()
