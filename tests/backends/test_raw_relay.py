"""Relayed requests over real connections, and by every adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from forge_proxy.api.bodies import run_slices
from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.config import OllamaConfig
from forge_proxy.backends.llama_server.instance import ServerInstance
from forge_proxy.backends.ollama import Ollama
from forge_proxy.backends.ollama_catalog import OllamaCatalog, OllamaEntry
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendBroke, RouteNotSupported
from forge_proxy.engine.ports import RawRelay
from forge_proxy.wire.relay import FormBody, JsonBody, RawCall
from tests.contracts.adapters import ADAPTER_CASES, Dialect

JSON_CALL = RawCall("POST", "/v1/embeddings", JsonBody(b'{"model": "one"}', {"model": "one"}), "application/json")


@asynccontextmanager
async def serving(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncGenerator[str]:
    """The URL of a server that handles every request in this way."""
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def relay_to(url: str) -> AsyncGenerator[OpenAICompatible]:
    http = AioHttp(connect_seconds=5, silence_seconds=5)
    try:
        yield OpenAICompatible(url, http)
    finally:
        await http.close()


async def test_a_large_form_arrives_as_it_was_sent() -> None:
    received: list[tuple[str, int | None, bytes]] = []

    async def keep(request: web.Request) -> web.Response:
        received.append((request.content_type, request.content_length, await request.read()))
        return web.json_response({"text": "hi"})

    raw = bytearray(b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nsmall\r\n--b\r\n')
    raw += b'Content-Disposition: form-data; name="file"\r\n\r\n' + bytes(range(256)) * 8000 + b"\r\n--b--\r\n"
    body = await run_slices(FormBody.read(raw, "multipart/form-data; boundary=b"))
    call = RawCall("POST", "/v1/audio/transcriptions", body, "multipart/form-data; boundary=b")
    async with serving(keep) as url, relay_to(url) as backend:
        async with backend.relay(call) as response:
            answered = b"".join([piece async for piece in response.pieces()])
        async with backend.relay(call.for_model("large-v3")):
            pass

    assert json.loads(answered) == {"text": "hi"}
    assert received[0] == ("multipart/form-data", len(raw), bytes(raw))
    assert received[1][2] == bytes(raw).replace(b"small", b"large-v3", 1)


async def test_a_response_arrives_piece_by_piece_and_leaving_it_ends_the_request() -> None:
    left = asyncio.Event()

    async def talk(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"data: 1\n\n")
                await asyncio.sleep(0.001)
        except (ConnectionError, asyncio.CancelledError):
            left.set()
            raise

    async with asyncio.timeout(30), serving(talk) as url, relay_to(url) as backend:
        async with backend.relay(JSON_CALL) as response:
            async for piece in response.pieces():
                assert piece.startswith(b"data: 1")
                break
        await left.wait()


async def test_a_response_that_ends_early_is_a_fault() -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving(break_off) as url, relay_to(url) as backend, backend.relay(JSON_CALL) as response:
        with pytest.raises(BackendBroke):
            _ = [piece async for piece in response.pieces()]


@pytest.mark.parametrize("dialect", ADAPTER_CASES)
def test_every_adapter_relays_or_says_that_it_has_no_such_route(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_over(self: ServerInstance, *, silent: bool = False) -> bool:
        raise AssertionError("a missing route says nothing about the process, whose end takes seconds to notice")

    monkeypatch.setattr(ServerInstance, "is_over", is_over)

    async def ask(backend: RawRelay) -> tuple[int, bytes]:
        async with backend.relay(JSON_CALL) as response:
            return response.status, b"".join([piece async for piece in response.pieces()])

    with dialect.run() as adapter:
        backend = adapter.backend
        assert isinstance(backend, RawRelay)
        adapter.http.says([b'{"da', b'ta":[]}'], "application/json")
        if backend.kind == "anthropic":
            with pytest.raises(RouteNotSupported, match="anthropic at http://model"):
                adapter.runner.run(ask(backend))
            return
        assert adapter.runner.run(ask(backend)) == (200, b'{"data":[]}')
        adapter.http.says([b"404 page not found"], "text/plain", 404)
        with pytest.raises(RouteNotSupported, match=f"{backend.kind} at http"):
            adapter.runner.run(ask(backend))


async def test_a_catalog_of_an_ollama_replaces_its_own_names() -> None:
    received: list[object] = []

    async def keep(request: web.Request) -> web.Response:
        received.append(await request.json())
        return web.json_response({})

    http = AioHttp(connect_seconds=5, silence_seconds=5)
    async with serving(keep) as url:
        ollama = Ollama(url, http, OllamaConfig(), lambda _: None)
        catalog = OllamaCatalog({"one": OllamaEntry("qwen3:8b", ollama), "two": OllamaEntry(None, ollama)})
        for call in (JSON_CALL, JSON_CALL.for_model("two"), JSON_CALL.for_model("unknown")):
            async with catalog.relay(call):
                pass
    await http.close()

    assert received == [{"model": "qwen3:8b"}, {"model": "two"}, {"model": "unknown"}]
