"""The Ollama adapter: its requests, and how it reads rejections. tests/contracts has what all adapters do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.backend_errors import BackendError, ContextOverflow
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.events import FieldsOmitted, PromptTruncated
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.contracts.adapters import put_together
from tests.fakes.literal import LiteralResponse
from tests.fakes.ollama import DONE, FakeOllama, JsonDict

LONG = "word " * 4000
"""20,000 bytes: 3,333 tokens at least."""


def call(**body: Any) -> ModelCall:
    request = decode_request({"model": "m", "messages": [{"role": "user", "content": "hi"}], **body})
    return ModelCall(request, stream=request.stream)


async def chunks_of(ollama: Ollama, asked: ModelCall) -> list[Chunk]:
    return [chunk async for chunk in ollama.stream(asked)]


def thinks_not(asked: JsonDict) -> tuple[int, JsonDict]:
    return (400, {"error": '"m" does not support thinking'}) if asked.get("think") else (200, DONE)


@pytest.mark.parametrize("url", ["http://ollama", "http://ollama/", "http://ollama/v1", "http://ollama/api"])
async def test_its_own_route_is_found_below_what_people_paste(url: str) -> None:
    fake = FakeOllama()

    await chunks_of(fake.adapter(url), call())

    assert fake.paths == ["/api/chat"]


async def test_a_model_without_reasoning_is_retried_without_it_and_that_is_remembered() -> None:
    fake = FakeOllama(thinks_not)
    ollama = fake.adapter()

    first = await chunks_of(ollama, call(reasoning_effort="high"))
    await chunks_of(ollama, call(reasoning_effort="high"))

    assert put_together(first).replies[0].text == "hi"
    assert [asked.get("think") for asked in fake.asked] == ["high", None, None]


async def test_reasoning_that_the_settings_require_is_not_omitted() -> None:
    fake = FakeOllama(thinks_not)

    with pytest.raises(BackendError, match="does not support thinking"):
        await chunks_of(fake.adapter(think="on"), call())


@pytest.mark.parametrize(
    ("config", "capabilities", "think"),
    [
        ("auto", ["completion", "thinking"], True),
        ("auto", ["completion"], None),
        ("off", ["completion", "thinking"], False),
        ("low", ["completion", "thinking"], "low"),
    ],
)
async def test_whether_a_model_reasons_if_the_request_does_not_set_it(
    config: str, capabilities: list[str], think: Any
) -> None:
    listed = {"models": [{"model": "m:latest", "digest": "1"}]}
    fake = FakeOllama(answers={"/api/tags": listed, "show m:latest": {"capabilities": capabilities}})
    ollama = fake.adapter(think=config)

    await ollama.models()
    await chunks_of(ollama, call())

    assert fake.asked[0].get("think") == think


async def test_models_have_their_windows_and_are_described_once() -> None:
    tags: JsonDict = {"models": [{"model": "a:latest", "digest": "1"}, {"model": "b:7b", "digest": "2"}]}
    loaded = {"models": [{"model": "b:7b", "context_length": 4096}]}
    shown = {"model_info": {"general.architecture": "llama", "llama.context_length": 8192}}
    fake = FakeOllama(
        answers={
            "/api/tags": tags,
            "/api/ps": loaded,
            "show a:latest": {**shown, "parameters": "num_ctx 2048"},
            "show b:7b": shown,
        }
    )
    ollama = fake.adapter()

    first, second = await ollama.models(), await ollama.models()
    tags["models"][1]["digest"] = "3"
    await ollama.models()

    assert [(card.id, card.window) for card in first] == [("a:latest", 2048), ("b:7b", 4096)]
    assert first == second
    assert fake.paths.count("/api/show") == 3


@pytest.mark.parametrize("status", [404, 500])
async def test_a_damaged_model_does_not_hide_the_others(status: int) -> None:
    class Damaged(FakeOllama):
        @asynccontextmanager
        async def open(self, method: str, url: str, **rest: Any) -> AsyncGenerator[LiteralResponse]:
            async with super().open(method, url, **rest) as response:
                yield LiteralResponse(status, {}, [b"{}"]) if url.endswith("/api/show") else response

    tags = {"models": [{"model": "a:1b", "digest": "1"}]}
    fake = Damaged(answers={"/api/tags": tags, "show a:1b": {}})

    assert [card.id for card in await fake.adapter().models()] == ["a:1b"]


OLD = {"/api/version": {"version": "0.11.10"}, "/api/ps": {"models": [{"name": "m:latest", "context_length": 2048}]}}


async def test_a_prompt_that_an_old_version_cut_is_an_overflow() -> None:
    fake = FakeOllama(answers=OLD)

    with pytest.raises(ContextOverflow) as caught:
        await chunks_of(fake.adapter(), call(messages=[{"role": "user", "content": LONG}]))

    assert (caught.value.status, caught.value.tokens, caught.value.window) == (400, 3333, 2048)
    assert "processed only 12" in caught.value.server_message


async def test_a_truncated_prompt_of_a_sent_response_is_only_logged() -> None:
    fake = FakeOllama(answers=OLD)

    await chunks_of(fake.adapter(), call(messages=[{"role": "user", "content": LONG}], stream=True))

    assert fake.heard == [PromptTruncated("m", 12, 3333)]


@pytest.mark.parametrize(
    ("answers", "config"),
    [
        ({**OLD, "/api/version": {"version": "0.34.4"}}, {}),  # it would have refused
        ({**OLD, "/api/ps": {"models": [{"name": "m:latest", "context_length": 8192}]}}, {}),  # it fits all the same
        (OLD, {"num_ctx": 8192}),
    ],
)
async def test_a_prompt_that_may_have_been_read_whole_is_no_overflow(answers: Any, config: JsonDict) -> None:
    fake = FakeOllama(answers=answers)

    got = await chunks_of(fake.adapter(**config), call(messages=[{"role": "user", "content": LONG}]))

    assert put_together(got).replies[0].text == "hi"


@pytest.mark.parametrize(("limit", "finish"), [({"max_tokens": 9}, "length"), ({}, None)])
async def test_a_call_cut_by_the_clients_limit_ends_the_response_with_length(
    limit: JsonDict, finish: str | None
) -> None:
    words = 'llama-server returned invalid tool call arguments for "f": unexpected end of JSON input'

    def fails(_: JsonDict) -> tuple[int, JsonDict]:
        return 500, {"error": words}

    fake = FakeOllama(fails)

    if finish is None:
        with pytest.raises(BackendError):
            await chunks_of(fake.adapter(), call(**limit))
    else:
        (reply,) = put_together(await chunks_of(fake.adapter(), call(**limit))).replies
        assert (reply.finish, reply.text, reply.calls) == (finish, None, ())


async def test_an_omitted_field_is_reported_once() -> None:
    fake = FakeOllama()
    ollama = fake.adapter()

    for _ in range(2):
        await chunks_of(ollama, call(logit_bias={"1": 2}, user="me"))
    await chunks_of(ollama, call(user="you", n=3))

    assert fake.heard == [FieldsOmitted(("logit_bias", "user")), FieldsOmitted(("n",))]


async def test_a_model_is_loaded_with_its_window() -> None:
    fake = FakeOllama()
    ollama = fake.adapter(num_ctx=4096)

    await ollama.load("m")

    (loading,) = fake.asked
    assert loading["options"] == {"num_ctx": 4096}
