"""Behavior that only Ollama has, with a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import openai
import pytest

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.config import OllamaConfig
from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.backend_errors import ContextOverflow
from forge_proxy.core.chat import ModelCall
from forge_proxy.wire.backends.ollama.request import OllamaRequestOptions
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.contracts.adapters import put_together
from tests.fakes.processes import until
from tests.live.ollama.conftest import NUM_CTX
from tests.live.ollama.server import Running, ask
from tests.live.weather import MODEL, PARIS, TOOLS, says


@pytest.fixture
async def backend(server: str) -> AsyncGenerator[Ollama]:
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    yield Ollama(server, http, OllamaConfig(num_ctx=512), lambda _: None)
    await http.close()


def call(content: Any, **fields: Any) -> ModelCall:
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}
    request = decode_request({"temperature": 0, **body})
    return ModelCall(request, stream=True)


def test_a_model_is_found_with_its_tag_and_without(client: openai.OpenAI) -> None:
    listed = list(client.models.list())
    found = client.models.retrieve(MODEL)

    assert [model.id for model in listed] == [f"{MODEL}:latest"]
    assert found.id == f"{MODEL}:latest"
    assert (found.model_extra or {})["context_length"] == NUM_CTX


def test_what_a_bare_ollama_cuts_in_silence_is_refused(server: str, client: openai.OpenAI) -> None:
    messages: Any = [*says("Remember the word lighthouse. " * 400), *says("What was the word?")]

    bare = ask(server, "/api/chat", {"model": MODEL, "messages": messages, "stream": False})
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=MODEL, messages=messages)

    assert bare["done"]
    assert bare["prompt_eval_count"] < 100
    assert refused.value.code == "context_length_exceeded"
    assert f"maximum context length is {NUM_CTX} tokens" in refused.value.message


def test_a_demand_to_think_is_met_or_let_go(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=says("hi"), reasoning_effort="high", temperature=0)

    assert answer.choices[0].message.content == "Hello! How can I help?"


def test_a_response_format_becomes_an_output_schema(client: openai.OpenAI) -> None:
    schema: Any = {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"]}

    answer = client.chat.completions.create(
        model=MODEL,
        messages=says("hi"),
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    )

    assert json.loads(answer.choices[0].message.content or "") == {"n": 7}


@pytest.mark.parametrize("running", [False], indirect=True, ids=["gguf-template"], scope="session")
def test_thoughts_are_told_as_such(client: openai.OpenAI) -> None:
    schema: Any = {"type": "array", "items": {"type": "integer"}}

    answer = client.chat.completions.create(
        model=MODEL,
        messages=says("hi"),
        temperature=0,
        max_tokens=40,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    )

    message = answer.choices[0].message
    assert (message.model_extra or {})["reasoning_content"] == "I need to call respond.\n"


def test_log_probabilities_go_with_the_text(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=says("hi"), temperature=0, logprobs=True, top_logprobs=2, max_tokens=3
    )

    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert choice.logprobs
    assert "".join(token.token for token in choice.logprobs.content or []) == choice.message.content
    assert {len(token.top_logprobs) for token in choice.logprobs.content or []} == {2}


def test_the_error_of_a_missing_model_has_a_remedy(server: str) -> None:
    async def asked() -> None:
        http = AioHttp(connect_seconds=5, silence_seconds=60)
        try:
            async for _ in Ollama(server, http, OllamaConfig(), lambda _: None).stream(call("hi", model="nope")):
                pass
        finally:
            await http.close()

    with pytest.raises(Exception, match="`ollama pull nope` fetches it"):
        asyncio.run(asked())


def test_an_image_that_ollama_would_have_to_fetch_is_refused_by_its_place(client: openai.OpenAI) -> None:
    image: Any = {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}

    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": [image]}])

    assert refused.value.param == "messages[0].content[0].image_url"


async def test_a_model_is_loaded_with_the_configured_window(server: str, backend: Ollama) -> None:
    await backend.load(MODEL)
    (loaded,) = await backend.loaded()
    (card,) = await backend.models()
    chunks = [chunk async for chunk in backend.stream(call("hi"))]
    (same,) = ask(server, "/api/ps")["models"]
    ask(server, "/api/chat", {"model": MODEL, "messages": [], "keep_alive": 0, "stream": False})

    assert (loaded.name, loaded.window, card.window) == (f"{MODEL}:latest", 512, 512)
    assert put_together(chunks).replies[0].text == "Hello! How can I help?"
    assert same["context_length"] == 512
    assert await backend.loaded() == []


async def test_the_window_is_the_one_that_counts(backend: Ollama) -> None:
    with pytest.raises(ContextOverflow) as refused:
        async for _ in backend.stream(call("hi " * 1000)):
            pass

    assert refused.value.window == 512
    assert (refused.value.tokens or 0) > 1000


async def test_calls_have_ids_places_and_counts(backend: Ollama) -> None:
    asked = call("Please get the weather with city Paris and days 3.", tools=TOOLS)

    completion = put_together([chunk async for chunk in backend.stream(asked)])

    (made,) = completion.replies[0].calls
    assert (made.tool, made.args(), completion.replies[0].finish) == ("get_weather", PARIS, "tool_calls")
    assert made.id
    assert completion.usage
    assert completion.usage["prompt_tokens"] == 112


async def test_who_leaves_ends_what_ollama_does(running: Running, backend: Ollama) -> None:
    numbers: Any = {"type": "array", "items": {"type": "integer"}, "minItems": 100}
    endless = call("hi", format={"type": "array", "items": numbers, "minItems": 100})  # it fills its window
    cancelled = running.log.read_text().count("cancel task")
    backend.options = OllamaRequestOptions(num_ctx=NUM_CTX)
    chunks = backend.stream(endless)
    await anext(chunks)

    await chunks.aclose()

    await asyncio.to_thread(until, lambda: running.log.read_text().count("cancel task") > cancelled, "a cancelled task")
