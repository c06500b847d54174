"""Large request bodies: they are measured before they are parsed, and their memory is bounded."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.api import bodies
from forge_proxy.api.app import create_app
from forge_proxy.api.bodies import MAX_VALUES, LargeBodies, measure_body
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.large_responses import LargeResponse
from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.exchange import write_call
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.health import Health
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.memory import MEGABYTE, MemoryBudget
from forge_proxy.wire.backends.openai.request import encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request
from forge_proxy.wire.large_json import PIECE
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock
from tests.properties import VALUES

PATH = "/v1/chat/completions"


def message(content: Any) -> bytes:
    return orjson.dumps({"messages": [{"role": "user", "content": content}]})


async def ask(
    body: bytes, memory: MemoryBudget, said: Sequence[Said] = (Said("ok"),), **headers: str
) -> httpx.Response:
    """One request to an application with that memory."""
    backend = OpenAICompatible("http://scripted", ScriptedHttp(said))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None))
    app = create_app(engine, backend, ServerConfig(), memory=memory)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.post(PATH, content=body)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (message(["x"] * (MAX_VALUES // 2)), 200),
        (message('[{,"' * 400_000), 200),  # in a string they are no values
        (message([[]] * (MAX_VALUES + 1)), 413),
        (b'{"messages":[' + b'{"a":"\\"["},' * (MAX_VALUES // 2) + b"1]}", 413),
        (b"[" * 600_000, 413),
    ],
    ids=["many", "in strings", "too many", "too many with quotes", "too deep"],
)
async def test_a_body_is_rejected_for_its_number_of_values_not_for_its_text(body: bytes, status: int) -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    answer = await ask(body, memory)

    assert answer.status_code == status
    if status == 413:
        assert f"{MAX_VALUES} JSON values" in answer.json()["error"]["message"]
    assert memory.used == 0


def separators(value: Any) -> int:
    """Commas and opening brackets in the JSON of a value, outside of its strings."""
    if not isinstance(value, list | dict):
        return 0
    parts = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(0, len(parts) - 1) + sum(map(separators, parts))


@given(st.lists(VALUES, max_size=5), st.integers(1, 20))
def test_separators_outside_strings_are_counted_however_the_slices_fall(values: list[Any], slice_size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "_STRINGS_SLICE", slice_size)
        counted = asyncio.run(bodies.count_outside_strings(json.dumps(values).encode(), 10**9))

    assert counted == separators(values)


@pytest.mark.parametrize("text", ["plain", "\U0001f600", "\u00e9"])
@pytest.mark.parametrize("ascii_only", [True, False])
async def test_text_beyond_ascii_is_noticed_in_either_form(text: str, ascii_only: bool) -> None:
    body = json.dumps([text], ensure_ascii=ascii_only).encode()

    assert (await measure_body(body)).is_wide is (text != "plain")


async def test_a_body_that_does_not_fit_the_memory_is_a_413_that_names_the_setting() -> None:
    answer = await ask(message("x" * 10 * MEGABYTE), MemoryBudget(16 * MEGABYTE))

    assert answer.status_code == 413
    assert "server.memory_mb" in answer.json()["error"]["message"]


async def test_a_health_check_is_answered_while_all_memory_is_used() -> None:
    memory = MemoryBudget(16 * MEGABYTE)
    memory.add(20 * MEGABYTE)
    backend = OpenAICompatible("http://scripted", ScriptedHttp([]))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, memory=memory))
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig(), memory=memory))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client, asyncio.timeout(10):
        assert (await client.get("/healthz")).status_code == 200


async def test_a_large_body_waits_while_the_memory_is_full_and_a_small_one_does_not() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(70 * MEGABYTE)
    large = asyncio.create_task(ask(message("x" * 10 * MEGABYTE), memory))
    small = await ask(message("x"), memory)

    assert (small.status_code, large.done()) == (200, False)
    memory.release(70 * MEGABYTE)
    assert (await large).status_code == 200
    assert memory.used == 0


async def test_a_wide_body_for_which_there_is_no_room_is_a_503_to_be_retried() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(30 * MEGABYTE)
    answer = await ask(message("x" * 13 * MEGABYTE + "\u00e9"), memory)

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "memory_full")
    assert int(answer.headers["retry-after"]) > 0
    assert memory.used == 30 * MEGABYTE


@pytest.mark.long
async def test_a_large_body_is_in_memory_three_times_at_most() -> None:
    """By the most that was resident: what the JSON library sets aside, and never touches, costs nothing."""
    begin, end = b'{"messages":[{"role":"user","content":"', b'"}]}'
    middle = b"x" * 65536
    await _send([begin, middle, end])
    gc.collect()
    before = _most_resident(anew=True)

    status = await _send([begin, *[middle] * 640, end])

    assert status == 200
    assert _most_resident() - before < 3.5 * 640 * 65536


def _most_resident(*, anew: bool = False) -> int:
    """Return the peak of resident bytes since the last reset."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


async def _send(pieces: list[bytes]) -> int:
    """Return the status of a body that arrives in these pieces."""
    backend = ForgetfulBackend()
    app = create_app(Engine(EngineConfig(backend, StillClock(), lambda _: None)), backend, ServerConfig())
    statuses: list[int] = []
    length = sum(map(len, pieces))

    async def receive() -> Any:
        if not pieces:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(sent: Any) -> None:
        statuses.append(sent.get("status", 0))

    headers = [(b"host", b"localhost"), (b"content-length", str(length).encode())]
    scope = {
        "type": "http", "method": "POST", "path": PATH, "raw_path": PATH.encode(), "query_string": b"",
        "headers": headers, "http_version": "1.1", "client": None, "server": None, "scheme": "http", "root_path": "",
    }  # fmt: skip
    await app(scope, receive, send)
    return statuses[0]


class ForgetfulBackend:
    """A model server that is sent the request as JSON, and answers."""

    url = "http://forgetful"

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        assert await write_call(call, encode_call(call))
        yield Chunk((Delta(text="ok", finish="stop"),))

    async def models(self) -> Sequence[ModelCard]:
        return [ModelCard("one")]

    async def slots(self) -> int | None:
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        return None

    async def count_tokens(self, call: ModelCall) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")


async def test_a_large_response_counts_until_a_slow_client_has_taken_it() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    taken, may_go_on = asyncio.Event(), asyncio.Event()
    sent: list[Any] = []

    async def send(piece: Any) -> None:
        sent.append(piece)
        taken.set()
        await may_go_on.wait()

    response = LargeResponse(b"x" * MEGABYTE, {"x-request-id": "r"}, memory)
    sending = asyncio.create_task(response({"type": "http"}, _never, send))
    await taken.wait()

    assert memory.used == MEGABYTE
    may_go_on.set()
    await sending
    assert memory.used == 0
    assert b"".join(piece.get("body", b"") for piece in sent) == b"x" * MEGABYTE
    assert [piece.get("more_body") for piece in sent[1:]] == [True, True, True, False]


async def _never() -> Any:
    await asyncio.Event().wait()


async def test_a_whole_response_of_several_megabytes_is_delivered() -> None:
    answer = await ask(message("x"), MemoryBudget(100 * MEGABYTE), [Said("y" * 3 * MEGABYTE)])

    assert answer.json()["choices"][0]["message"]["content"] == "y" * 3 * MEGABYTE


@pytest.mark.parametrize("text", ["x" * 3 * MEGABYTE, "\U0001f600\n" * MEGABYTE, "x" * 2 * MEGABYTE + "\u00e9"])
async def test_a_large_body_is_parsed_and_forwarded_in_slices(text: str) -> None:
    """The server takes it as it is; meanwhile others have the event loop."""
    taken: list[Any] = []
    turns = 0

    async def answer(request: web.Request) -> web.Response:
        taken.append((request.content_length, await request.json(loads=orjson.loads)))
        return web.json_response({"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    app = web.Application(client_max_size=64 * MEGABYTE)
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server:
        http = AioHttp(connect_seconds=5, silence_seconds=60)
        backend = OpenAICompatible(f"http://127.0.0.1:{server.port}", http)
        raw = message(text)
        beside = asyncio.create_task(others())
        chat = replace(decode_request(await LargeBodies().parse([raw])), is_large=True)
        read_turns = turns
        assert [chunk.deltas[0].text async for chunk in backend.stream(ModelCall(chat, stream=False))] == ["ok"]
        beside.cancel()
        await http.close()

    assert taken == [(len(raw), orjson.loads(raw))]
    assert read_turns >= len(raw) // PIECE
    assert turns - read_turns >= len(raw) // PIECE // 4


async def test_a_lack_of_memory_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", "", 0)

    monkeypatch.setattr("forge_proxy.wire.clients.body.orjson.loads", fail)
    answer = await ask(message("x"), MemoryBudget(100 * MEGABYTE))

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "out_of_memory")
