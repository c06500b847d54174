"""The requests of the Anthropic adapter to the service."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from forge_proxy.backends.anthropic import AnthropicMessages
from forge_proxy.core.backend_errors import BackendBroke, BackendFault
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.literal import EVENTS, JSON, LiteralTransport

BODY: dict[str, Any] = {"model": "claude-x", "messages": [{"role": "user", "content": "u"}], "max_tokens": 9}


def call(**fields: Any) -> ModelCall:
    return ModelCall(decode_request({**BODY, **fields}), stream=True)


@asynccontextmanager
async def adapter(transport: httpx2.AsyncBaseTransport, url: str = "http://model") -> AsyncGenerator[AnthropicMessages]:
    http = httpx2.AsyncClient(transport=transport)
    backend = AnthropicMessages(url, api_key="k", connect_seconds=5, silence_seconds=5, http=http)
    yield backend
    await backend.close()


async def test_a_prompt_is_counted_as_it_would_be_sent() -> None:
    transport = LiteralTransport([b'{"input_tokens": 42}'], JSON)
    tool = {"type": "function", "function": {"name": "t"}}

    async with adapter(transport) as backend:
        assert await backend.count_tokens(call(tools=[tool], temperature=0.5)) == 42

    assert set(transport.asked[0]) == {"model", "messages", "tools"}


async def test_a_schema_is_converted_to_the_subset_that_the_service_accepts() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    transport = LiteralTransport([b""], EVENTS)

    async with adapter(transport) as backend:
        with pytest.raises(BackendBroke):
            await anext(backend.stream(call(response_format=form)))
        untyped = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": {}}}}
        with pytest.raises(InvalidRequest, match=r"response_format\.json_schema\.schema"):
            await anext(backend.stream(call(response_format=untyped)))

    sent = transport.asked[0]["output_config"]["format"]["schema"]
    assert sent["additionalProperties"] is False
    assert "minimum" not in sent["properties"]["n"]
    assert schema["properties"] == {"n": {"type": "integer", "minimum": 3}}  # the caller's own is not changed


async def test_the_list_of_models_is_read_to_its_end() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        after = request.url.params.get("after_id")
        named = {"id": "two" if after else "one", "max_input_tokens": 5}
        return httpx2.Response(200, json={"data": [named], "has_more": after is None, "last_id": "one"})

    async with adapter(httpx2.MockTransport(answer)) as backend:
        assert [card.id for card in await backend.models()] == ["one", "two"]


async def test_a_models_limit_is_asked_for_once_under_its_alias() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        if request.method == "GET":
            return httpx2.Response(200, json={"id": "claude-x-1", "max_tokens": 7})
        return httpx2.Response(200, headers={"content-type": EVENTS}, content=b"")

    async with adapter(httpx2.MockTransport(answer), "http://me:secret@model/base/v1") as backend:
        for _ in range(2):
            with pytest.raises(BackendBroke):
                await anext(backend.stream(call()))
        assert backend.url == "http://model/base"

    sent = "/base/v1/messages"
    assert asked == ["/base/v1/models/claude-x", sent, sent]


async def test_garbage_in_the_middle_is_an_error() -> None:
    begun = b'data: {"type":"message_start","message":{"id":"m"}}\n\n'
    async with adapter(LiteralTransport([begun, b"data: nonsense\n\n"], EVENTS)) as backend:
        chunks = backend.stream(call())
        assert (await anext(chunks)).head == {"id": "m"}
        with pytest.raises(BackendBroke):
            await anext(chunks)


@pytest.mark.parametrize("encoding", ["br", "zstd"])
async def test_the_daemon_requests_no_compression_and_names_an_encoding_it_cannot_decode(encoding: str) -> None:
    requested: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requested.append(request.headers["accept-encoding"])
        if request.method == "GET":
            return httpx2.Response(404)
        return httpx2.Response(200, headers={"content-type": EVENTS, "content-encoding": encoding}, content=b"xx")

    async with adapter(httpx2.MockTransport(answer)) as backend:
        with pytest.raises(BackendBroke, match=f"Content-Encoding {encoding}, which the daemon did not request"):
            await anext(backend.stream(call()))

    assert set(requested) == {"identity"}


async def test_a_web_page_in_place_of_json_is_an_error_of_the_backend() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/html"}, content=b"<html>")

    async with adapter(httpx2.MockTransport(answer)) as backend:
        with pytest.raises(BackendBroke, match="not JSON"):
            await backend.models()
        with pytest.raises(BackendBroke, match="not JSON"):
            await backend.count_tokens(call())
        with pytest.raises(BackendBroke, match="HTML page"):
            await anext(backend.stream(call()))
        assert (await backend.health()).status == "down"


def test_a_daemon_without_it_does_not_wait_for_the_sdk() -> None:
    look = "import sys, forge_proxy.daemon; sys.exit('anthropic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


class Noting(httpx2.AsyncBaseTransport):
    """Notes what is posted and in what pieces."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, httpx2.Headers]] = []
        self.pieces: list[list[bytes]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(404, json={}, request=request)
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        pieces = [piece async for piece in request.stream]
        self.sent.append((request.url.path, b"".join(pieces), request.headers))
        self.pieces.append(pieces)
        return httpx2.Response(200, json={"input_tokens": 1}, request=request)


@pytest.mark.parametrize("text", ["x" * 700_000, '\u00e9\U0001f600\n\t\x01\u2028"\\' * 60_000])
async def test_a_large_body_is_sent_in_slices_and_is_byte_for_byte_what_the_sdk_would_send(text: str) -> None:
    server = Noting()
    tool = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "properties": {
        "n": {"type": "number", "minimum": 0.00001, "maximum": 1e22, "default": 1.0}}}}}  # fmt: skip
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
    small = call(messages=[*messages, {"role": "user", "content": text}], tools=[tool], temperature=0.00001)
    large = replace(small, request=replace(small.request, is_large=True))
    async with adapter(server) as backend:
        for one in (small, large):
            with pytest.raises(BackendFault):
                await anext(backend.stream(one))
            await backend.count_tokens(one)

    (path, whole, headers), (count_path, whole_count, _), *others = server.sent
    (path2, sliced, headers2), (count_path2, sliced_count, _) = others
    assert (path2, sliced) == (path, whole)
    assert (count_path2, sliced_count) == (count_path, whole_count)
    assert dict(headers2) == dict(headers)
    assert max(map(len, server.pieces[-1])) < 1024 * 1024 < len(whole)
