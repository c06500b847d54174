"""Routes that only the model server implements: relayed with keys, limits, a slot and the names of the models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.anthropic import AnthropicMessages
from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendBroke, BackendUnreachable
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.scheduling import ModelSchedule
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event, RequestAbandoned, RequestAnswered, RequestFailed
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.models import Models
from forge_proxy.engine.ports import Backend
from tests.fakes.literal import LiteralResponse
from tests.fakes.ollama import FakeOllama
from tests.fakes.scripted import StillClock, whole

EMBED = {"model": "coder", "input": "x", "own": [1.0, {"ü": None}]}
ANSWER = b'{"data": [ ]}'
BOUNDARY = "b0und"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def form(*parts: tuple[str, bytes]) -> bytes:
    heads = (
        (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode(), value)
        for name, value in parts
    )
    return b"".join(head + value + b"\r\n" for head, value in heads) + f"--{BOUNDARY}--\r\n".encode()


@dataclass
class Asked:
    """A request that the model server received."""

    method: str
    url: str
    body: bytes
    headers: Mapping[str, str]


@dataclass
class RelayedServer:
    """`HttpClient` of a model server with one answer to every request but that for its models."""

    status: int = 200
    pieces: Sequence[bytes | Exception] = (ANSWER,)
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    models: Sequence[str] = ("coder", "other")
    asked: list[Asked] = field(default_factory=list[Asked])
    open_now: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request has arrived."""
    gate: asyncio.Event | None = None
    """The answers begin when this is set."""

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[Any]:
        if url.endswith("/v1/models"):
            yield LiteralResponse(200, {}, [json.dumps({"data": [{"id": name} for name in self.models]}).encode()])
            return
        if (headers or {}).get("Accept") != "*/*":  # the daemon's own question for the number of slots
            yield LiteralResponse(404, {}, [])
            return
        self.asked.append(Asked(method, url, whole(body), headers or {}))
        self.open_now += 1
        self.arrived.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
            yield _Answer(self.status, self.headers, self.pieces)
        finally:
            self.open_now -= 1


@dataclass
class _Answer:
    status: int
    headers: Mapping[str, str]
    sent: Sequence[bytes | Exception]

    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self.sent:
            if isinstance(piece, Exception):
                raise piece
            yield piece


@asynccontextmanager
async def client_of(
    http: RelayedServer,
    *,
    backend: Backend | None = None,
    aliases: Mapping[str, str] | None = None,
    slots: int | None = None,
    heard: list[Event] | None = None,
    memory: MemoryBudget | None = None,
    **server: Any,
) -> AsyncGenerator[httpx.AsyncClient]:
    clock, observe = StillClock(), (heard if heard is not None else []).append
    backend = backend or OpenAICompatible("http://model/v1", http, kind="vllm", api_key="secret")
    catalog = Catalog(("coder", "other"), aliases, "coder") if aliases is not None else None
    config = EngineConfig(
        backend, clock, observe,
        models=Models(backend, clock, catalog=catalog),
        admission=Admission(backend, clock, observe, slots=slots),
    )  # fmt: skip
    app = create_app(Engine(config), backend, ServerConfig(**server), memory=memory)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.parametrize(
    ("route", "url"),
    [
        ("/v1/completions", "http://model/v1/completions"),
        ("/v1/embeddings", "http://model/v1/embeddings"),
        ("/v1/rerank", "http://model/v1/rerank"),
        ("/v1/audio/speech", "http://model/v1/audio/speech"),
        ("/tokenize", "http://model/tokenize"),
        ("/detokenize", "http://model/detokenize"),
        ("/apply-template", "http://model/apply-template"),
        ("/infill", "http://model/infill"),
    ],
)
async def test_a_body_and_its_response_are_relayed_byte_for_byte(route: str, url: str) -> None:
    http, heard = RelayedServer(), list[Event]()
    sent = b'{"model": "coder" ,"input":"\\u00fc", "own": 1.0}'
    async with client_of(http, heard=heard) as client:
        response = await client.post(f"{route}?a=b%20c", content=sent, headers={"content-type": "application/json"})

    (asked,) = http.asked
    assert (asked.method, asked.url, asked.body) == ("POST", f"{url}?a=b%20c", sent)
    assert (asked.headers["Content-Type"], asked.headers["Authorization"]) == ("application/json", "Bearer secret")
    assert (response.status_code, response.content) == (200, ANSWER)
    assert [type(event) for event in heard if not type(event).__name__.startswith("Slots")] == [RequestAnswered]
    assert http.open_now == 0


@pytest.mark.parametrize("route", ["/props", "/slots"])
async def test_the_state_of_a_llama_server_is_read_without_a_slot(route: str) -> None:
    http = RelayedServer(gate=asyncio.Event())
    async with client_of(http, slots=1) as client:
        busy = asyncio.create_task(client.post("/v1/embeddings", json=EMBED))
        await http.arrived.wait()
        gate, http.gate = http.gate, None
        response = await client.get(route)
        assert gate is not None
        gate.set()
        await busy

    assert (response.status_code, response.content) == (200, ANSWER)
    assert [asked.url for asked in http.asked] == ["http://model/v1/embeddings", f"http://model{route}"]


async def test_an_alias_is_replaced_by_the_name_of_the_model() -> None:
    http = RelayedServer()
    async with client_of(http, aliases={"small": "other"}) as client:
        await client.post("/v1/embeddings", json={**EMBED, "model": "small"})
        unknown = await client.post("/tokenize", json={"content": "x"})

    assert json.loads(http.asked[0].body) == {**EMBED, "model": "other"}
    assert json.loads(http.asked[1].body) == {"content": "x"}  # a body without a model stays as it is
    assert unknown.status_code == 200


async def test_a_form_passes_unchanged_but_for_an_alias() -> None:
    http = RelayedServer()
    recording = bytes(range(256)) * 3000 + b'\r\nname="model"\r\n'
    body = form(("file", recording), ("model", b"small"), ("language", b"de"))
    named = form(("file", recording), ("model", b"coder"), ("language", b"de"))
    async with client_of(http, aliases={"small": "other"}) as client:
        for sent in (body, named):
            await client.post("/v1/audio/transcriptions", content=sent, headers={"content-type": FORM})

    assert http.asked[0].body == form(("file", recording), ("model", b"other"), ("language", b"de"))
    assert http.asked[1].body == named
    assert http.asked[0].headers["Content-Type"] == FORM


async def test_a_response_streams_and_its_hop_by_hop_headers_and_cookies_do_not_pass() -> None:
    headers = {
        "content-type": "text/event-stream", "connection": "close", "set-cookie": "a=b", "server": "x",
        "access-control-allow-origin": "*", "retry-after": "3", "content-length": "999", "keep-alive": "x",
    }  # fmt: skip
    http = RelayedServer(pieces=(b"data: 1\n\n", b"data: [DONE]\n\n"), headers=headers)
    async with client_of(http) as client:
        response = await client.post("/v1/completions", json={"model": "coder", "prompt": "x", "stream": True})

    assert response.content == b"data: 1\n\ndata: [DONE]\n\n"
    assert set(response.headers) == {"content-type", "retry-after", "cache-control", "x-request-id"}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error": {"message": "too long", "n_ctx": 4}}'),
        (404, b'{"error": {"message": "The model `x` does not exist."}}'),
        (404, b'{"object":"error","message":"model not found"}'),
        (422, b"wrong"),
        (429, b""),
        (500, b"{}"),
        (
            501,
            b'{"error":{"code":501,"message":"This server does not support embeddings.","type":"not_supported_error"}}',
        ),
        (503, b'{"error": {"message": "Loading model"}}'),
    ],
)
async def test_an_error_of_the_model_server_keeps_its_status_and_body(status: int, body: bytes) -> None:
    http = RelayedServer(status, (body,))
    async with client_of(http) as client:
        response = await client.post("/v1/embeddings", json=EMBED)

    assert (response.status_code, response.content) == (status, body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'),
        (404, b"404 page not found"),
        (404, b'{"detail":"Not Found"}'),
        (405, b'{"detail":"Method Not Allowed"}'),
    ],
)
async def test_a_route_that_the_model_server_does_not_have_is_a_501_with_its_name(status: int, body: bytes) -> None:
    http = RelayedServer(status, (body,))
    async with client_of(http) as client:
        response = await client.post("/v1/rerank", json=EMBED)

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (501, "route_not_supported")
    assert "vllm at http://model" in error["message"]
    assert "POST /v1/rerank" in error["message"]


@pytest.mark.parametrize(
    ("status", "code"), [(401, "backend_refused_key"), (403, "backend_refused_key"), (307, "backend_error")]
)
async def test_a_refused_key_and_a_redirect_concern_the_daemon(status: int, code: str) -> None:
    http = RelayedServer(status, (b"{}",), {"location": "http://elsewhere/"})
    async with client_of(http) as client:
        response = await client.post("/v1/embeddings", json=EMBED)

    assert (response.status_code, response.json()["error"]["code"]) == (502, code)
    assert len(http.asked) == 1


async def test_anthropics_api_has_none_of_the_routes() -> None:
    backend = AnthropicMessages("http://claude", api_key="k", connect_seconds=1, silence_seconds=1)
    async with client_of(RelayedServer(), backend=backend, aliases={}) as client:
        response = await client.post("/v1/embeddings", json=EMBED)
        management = await client.post("/api/pull", json={"model": "x"})
    await backend.close()

    assert (response.status_code, management.status_code) == (501, 501)
    assert "anthropic at http://claude" in response.json()["error"]["message"]
    assert "anthropic at http://claude" in management.json()["error"]


async def test_relayed_requests_wait_for_a_slot() -> None:
    http = RelayedServer(gate=asyncio.Event())
    async with client_of(http, slots=2) as client:
        requests = [asyncio.create_task(client.post("/v1/embeddings", json=EMBED)) for _ in range(5)]
        for _ in range(200):
            await asyncio.sleep(0)
        waiting = http.open_now
        assert http.gate is not None
        http.gate.set()
        statuses = [response.status_code for response in await asyncio.gather(*requests)]

    assert waiting == 2
    assert statuses == [200] * 5


async def test_loading_the_served_model_does_not_wait_for_a_slot() -> None:
    http = RelayedServer(gate=asyncio.Event())
    async with asyncio.timeout(30), client_of(http, slots=1) as client:
        busy = asyncio.create_task(client.post("/v1/embeddings", json=EMBED))
        await http.arrived.wait()
        loaded = await client.post("/api/generate", json={"model": "coder"})
        assert http.gate is not None
        http.gate.set()
        await busy

    assert (loaded.status_code, loaded.json()["done_reason"]) == (200, "load")


async def test_loading_another_model_of_a_catalog_waits_until_it_is_loaded() -> None:
    backend = OpenAICompatible("http://model", RelayedServer())
    clock, catalog = StillClock(), Catalog(("coder", "other"), {}, "coder")
    admission = Admission(backend, clock, lambda _: None, slots=1, schedule=ModelSchedule(10))
    admission.set_loaded("coder")
    models = Models(backend, clock, catalog=catalog)
    engine = Engine(EngineConfig(backend, clock, lambda _: None, models=models, admission=admission))
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig()))
    async with asyncio.timeout(30), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        loading = asyncio.create_task(client.post("/api/chat", json={"model": "other", "stream": False}))
        wanted = await admission.wait_for_swap()
        waited = not loading.done()
        admission.set_loaded(wanted)
        loaded = await loading

    assert (wanted, waited, loaded.json()["done_reason"]) == ("other", True, "load")


async def test_a_response_that_breaks_off_has_no_end() -> None:
    http, heard = RelayedServer(pieces=(b"data: 1\n\n", BackendBroke("http://model", "closed"))), list[Event]()
    sent = await _receive_raw(http, heard)

    assert [message.get("body") for message in sent[1:]] == [b"data: 1\n\n"]
    assert sent[-1]["more_body"]
    assert any(isinstance(event, RequestFailed) for event in heard)
    assert http.open_now == 0


async def test_a_client_that_disconnects_frees_the_slot() -> None:
    http, heard = RelayedServer(gate=asyncio.Event()), list[Event]()
    sent = await _receive_raw(http, heard, disconnects=True)

    assert sent == []
    assert any(isinstance(event, RequestAbandoned) for event in heard)
    assert http.open_now == 0


async def _receive_raw(http: RelayedServer, heard: list[Event], *, disconnects: bool = False) -> list[Any]:
    """The messages that the application sends for a completion, over ASGI itself."""
    backend = OpenAICompatible("http://model", http)
    app = create_app(Engine(EngineConfig(backend, StillClock(), heard.append)), backend, ServerConfig())
    body = [
        {"type": "http.request", "body": json.dumps({"model": "coder", "prompt": "x"}).encode(), "more_body": False}
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        if body:
            return body.pop()
        await (http.arrived if disconnects else asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/v1/completions", "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    async with asyncio.timeout(30):
        await app(scope, receive, send)
    return sent


async def test_a_model_server_that_cannot_be_reached_is_a_502() -> None:
    http = RelayedServer(models=())

    @asynccontextmanager
    async def unreachable(method: str, url: str, **_: Any) -> AsyncGenerator[Any]:
        raise BackendUnreachable(url, "refused")
        yield

    http.open = unreachable  # type: ignore[method-assign]
    async with client_of(http) as client:
        response = await client.post("/v1/embeddings", json=EMBED)

    assert (response.status_code, response.json()["error"]["code"]) == (502, "backend_unreachable")


@pytest.mark.parametrize(
    ("path", "content", "kind", "status"),
    [
        ("/v1/embeddings", b"{", "application/json", 400),
        ("/v1/embeddings", b"[]", "application/json", 400),
        ("/v1/embeddings", form(("model", b"x")), FORM, 415),
        ("/v1/audio/..%2f..%2fslots", b"{}", "application/json", 400),
        ("/v1/audio/transcriptions", b"RIFF", "audio/wav", 400),
    ],
)
async def test_a_request_that_cannot_be_relayed_is_refused(path: str, content: bytes, kind: str, status: int) -> None:
    http = RelayedServer()
    async with client_of(http) as client:
        response = await client.post(path, content=content, headers={"content-type": kind})

    assert (response.status_code, http.asked) == (status, [])


@pytest.mark.parametrize("path", ["/v1/embeddings", "/slots", "/v1/audio/speech", "/api/embed", "/api/tags"])
async def test_a_relayed_route_needs_a_key(path: str) -> None:
    http = RelayedServer()
    async with client_of(http, api_keys=["k" * 8]) as client:
        response = await client.request("GET" if path in ("/slots", "/api/tags") else "POST", path, json=EMBED)

    assert (response.status_code, http.asked) == (401, [])


async def test_a_recording_of_any_bytes_is_not_counted_as_json_values() -> None:
    http, recording = RelayedServer(), b"[{," * 200_000
    async with client_of(http) as client:
        body = form(("file", recording))
        relayed = await client.post("/v1/audio/transcriptions", content=body, headers={"content-type": FORM})
        counted = await client.post("/v1/embeddings", content=b'{"a": [%s]}' % b",".join([b"1"] * 400_000))

    assert (relayed.status_code, counted.status_code) == (200, 413)


async def test_the_name_of_a_file_does_not_choose_the_model() -> None:
    http = RelayedServer()
    name = 'x\\"; name=\\"model'
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    body = head + b"small\r\n" + form(("model", b"small"))
    async with client_of(http, aliases={"small": "other"}) as client:
        response = await client.post("/v1/audio/transcriptions", content=body, headers={"content-type": FORM})
        twice = await client.post(
            "/v1/audio/transcriptions",
            content=form(("model", b"small"), ("model", b"coder")),
            headers={"content-type": FORM},
        )

    assert response.status_code == 200
    assert http.asked[0].body == head + b"small\r\n" + form(("model", b"other"))
    assert (twice.status_code, twice.json()["error"]["param"]) == (400, "model")


async def test_fifty_large_recordings_wait_for_memory_and_all_are_relayed() -> None:
    http, size = RelayedServer(), 1024 * 1024
    memory = MemoryBudget(12 * size)
    peak = 0

    async def send(client: httpx.AsyncClient) -> int:
        nonlocal peak
        body = form(("file", bytes(size)))
        response = await client.post("/v1/audio/transcriptions", content=body, headers={"content-type": FORM})
        peak = max(peak, memory.used)
        return response.status_code

    async with client_of(http, memory=memory) as client:
        statuses = await asyncio.gather(*(send(client) for _ in range(50)))

    assert statuses == [200] * 50
    assert peak <= memory.limit
    assert memory.used == 0


class TestOverAnOllama:
    """Routes of Ollama itself, which another model server does not have."""

    async def test_its_models_are_changed_by_its_own_routes(self) -> None:
        ollama = FakeOllama(answers={"/api/pull": {"status": "success"}})
        async with client_of(RelayedServer(), backend=ollama.adapter()) as client:
            response = await client.post("/api/pull", json={"model": "llama3", "stream": True})

        assert response.json() == {"status": "success"}
        assert ollama.paths == ["/api/pull"]

    async def test_embeddings_and_the_loaded_models_are_relayed_unchanged(self) -> None:
        answers: Any = {"/api/embed": {"embeddings": [[1.0]]}, "/api/ps": {"models": []}, "/api/tags": {"models": []}}
        ollama = FakeOllama(answers=answers)
        async with client_of(RelayedServer(), backend=ollama.adapter()) as client:
            embedded = await client.post("/api/embed", json={"model": "x", "input": "y", "truncate": True})
            loaded = await client.get("/api/ps")

        assert (embedded.json(), loaded.json()) == ({"embeddings": [[1.0]]}, {"models": []})

    @pytest.mark.parametrize("path", ["/api/pull", "/api/create", "/api/push", "/api/copy"])
    async def test_changing_models_needs_a_key_of_the_admin_api(self, path: str) -> None:
        ollama, admin = FakeOllama(), {"authorization": f"Bearer {'a' * 8}"}
        keys: Any = {"api_keys": ["k" * 8], "admin_keys": ["a" * 8]}
        async with client_of(RelayedServer(), backend=ollama.adapter(), **keys) as client:
            refused = await client.post(path, json={}, headers={"authorization": f"Bearer {'k' * 8}"})
            accepted = await client.post(path, json={}, headers=admin)

        assert (refused.status_code, accepted.status_code) == (401, 200)
        assert ollama.paths == [path]

    @pytest.mark.parametrize("digest", ["sha256:" + "0" * 64, "sha256-" + "a" * 64])
    async def test_a_file_is_uploaded_by_its_digest(self, digest: str) -> None:
        ollama = FakeOllama()
        async with client_of(RelayedServer(), backend=ollama.adapter()) as client:
            exists = await client.head(f"/api/blobs/{digest}")
            stored = await client.post(f"/api/blobs/{digest}", content=b"GGUF")
            wrong = await client.post("/api/blobs/..%2ftags", content=b"GGUF")

        assert (exists.status_code, stored.status_code, wrong.status_code) == (200, 200, 404)
        assert ollama.paths == [f"/api/blobs/{digest}"] * 2

    @pytest.mark.parametrize(
        "body",
        [
            {"prompt": "def f(", "suffix": "return 1"},
            {"prompt": "x", "raw": True},
            {"prompt": "x", "context": [1]},
            {"prompt": "", "keep_alive": 0},
        ],
    )
    async def test_a_prompt_without_the_chat_template_goes_to_its_own_route(self, body: dict[str, Any]) -> None:
        answers: Any = {"/api/generate": {"response": "x", "done": True}, "/api/tags": {"models": []}}
        ollama = FakeOllama(answers=answers)
        async with client_of(RelayedServer(), backend=ollama.adapter()) as client:
            response = await client.post("/api/generate", json={"model": "x", **body})

        assert response.json() == {"response": "x", "done": True}
        assert "/api/generate" in ollama.paths

    async def test_options_of_its_own_reach_it(self) -> None:
        ollama = FakeOllama(answers={"/api/tags": {"models": []}})
        body = {
            "model": "x", "messages": [{"role": "user", "content": "hi"}], "keep_alive": "1m", "think": False,
            "format": {"type": "object"},
            "options": {"num_ctx": 8192, "num_predict": 9, "mirostat": 1, "stop": ["END"]},
        }  # fmt: skip
        async with client_of(RelayedServer(), backend=ollama.adapter()) as client:
            response = await client.post("/api/chat", json={**body, "stream": False})

        (asked,) = ollama.asked
        assert asked["options"] == {"num_ctx": 8192, "num_predict": 9, "mirostat": 1, "stop": ["END"]}
        assert (asked["keep_alive"], asked["think"], asked["format"]) == ("1m", False, {"type": "object"})
        assert response.json()["message"]["content"] == "hi"
        assert "x-forge-interventions" not in response.headers


async def test_a_relayed_request_has_the_priority_of_its_header() -> None:
    heard: list[Event] = []
    async with client_of(RelayedServer(), heard=heard) as client:
        await client.post("/v1/embeddings", json=EMBED, headers={"x-forge-priority": "background"})
        refused = await client.post("/v1/embeddings", json=EMBED, headers={"x-forge-priority": "low"})

    (record,) = [event.record for event in heard if isinstance(event, RequestAnswered)]
    assert record.origin.priority == "background"
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "header x-forge-priority")
