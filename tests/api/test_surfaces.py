"""A client API that exists only here, served by the code that all client APIs share: it needs no change there."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import Message
from uvicorn.server import ServerState

from forge_proxy.api.app import create_app
from forge_proxy.api.chat_completions import CHAT_COMPLETIONS
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.connections import ConnectionLimits, ConnectionSupervisor
from forge_proxy.api.error_responses import ErrorEnvelopes
from forge_proxy.api.protocol import http_protocol
from forge_proxy.api.streaming import StreamEncoder, StreamingAnswer
from forge_proxy.api.surface import Surface
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendBroke
from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.answer import AnswerEvent, Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import ContextCompacted
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.errors import ClassifiedError
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

TELEGRAMS = "/v9/telegrams"
WEATHER: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PLAIN: dict[str, Any] = {"text": "Is it sunny?"}
GUARDED: dict[str, Any] = {**PLAIN, "tool": "get_weather"}
CALL = Said(text='{"name": "get_weather", "arguments": {"city": "Paris"}}')


def decode(body: JsonObject) -> DecodedTelegram:
    text, tool = body.get("text"), body.get("tool")
    if not isinstance(text, str):
        raise InvalidRequest("text", "expected a string")
    message: JsonObject = {"role": "user", "content": text}
    tools: list[JsonObject] = [{"type": "function", "function": {"name": tool, "parameters": WEATHER}}] if tool else []
    chat = ChatRequest(
        body={"messages": [message], **({"tools": [*tools]} if tools else {}), "stream": body.get("live")},
        messages=(message,),
        tools=(ToolSpec(str(tool), WEATHER),) if tool else (),
        stream=body.get("live") is True,
        is_converted=True,
        dropped=("stamp: telegrams have none",) if "stamp" in body else (),
    )
    return DecodedTelegram(chat)


def encode_fault(error: ClassifiedError) -> JsonObject:
    return {"fault": {"reason": error.message, "name": error.code, "field": error.param, "kind": error.kind}}


class TelegramEncoder:
    """Two lines and one bell for each event; there are no comments."""

    media_type = "application/x-telegrams"

    def write(self, chunk: Chunk) -> bytes:
        words = [delta.text for delta in chunk.deltas if delta.text]
        calls = [f"{call.name}{call.arguments}" for delta in chunk.deltas for call in delta.calls]
        return b"".join(self._event("word", text) for text in words + calls)

    def comment(self, text: str) -> bytes:
        return b""

    def keepalive(self) -> bytes:
        return self._event("tick", None)

    def finish(self, report: Report) -> bytes:
        return self._event("stop", report.outcome.value)

    def error(self, error: ClassifiedError) -> bytes:
        return self._event("fault", encode_fault(error))

    def _event(self, name: str, data: Any) -> bytes:
        return f"event: {name}\n{json.dumps(data)}\a\n".encode()


@dataclass(frozen=True)
class DecodedTelegram:
    chat: ChatRequest

    def build_stream_encoder(self, request_id: str, created: int) -> TelegramEncoder:
        return TelegramEncoder()

    def encode_response(self, response: ResponseCollector, request_id: str, created: int) -> bytes:
        (reply,) = response.completion().replies
        calls = "".join(f"{call.tool}{call.arguments}" for call in reply.calls)
        return json.dumps({"telegram": (reply.text or "") + calls, "to": request_id}).encode()


SURFACE = Surface(
    name="test",
    routes=(TELEGRAMS,),
    prefixes=(TELEGRAMS,),
    decode_request=decode,
    encode_error=encode_fault,
    openapi_paths={TELEGRAMS: {"post": {"operationId": "telegrams", "responses": {"200": {"description": "Sent."}}}}},
    openapi_schemas={"Telegram": {"type": "object"}},
)


async def send(
    script: Sequence[Said | Exception],
    body: Any,
    *,
    method: str = "POST",
    path: str = TELEGRAMS,
    headers: Mapping[str, str] | None = None,
    **server: Any,
) -> httpx.Response:
    backend = OpenAICompatible("http://scripted", ScriptedHttp(script))
    engine = Engine(EngineConfig(backend, StillClock(), [].append))
    config = ServerConfig(**server)
    app = create_app(engine, backend, config, surfaces=(CHAT_COMPLETIONS, SURFACE))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return await client.request(method, path, content=content, headers=dict(headers or {}))


def events_of(stream: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for block in stream.removesuffix("\a\n").split("\a\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data)))
    return found


async def test_text_is_streamed_in_the_format_of_the_surface() -> None:
    response = await send([Said(text="It is sunny.")], {**PLAIN, "live": True})

    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-telegrams")
    *words, (last, outcome) = events_of(response.text)
    assert "".join(text for _, text in words) == "It is sunny."
    assert {name for name, _ in words} == {"word"}
    assert (last, outcome) == ("stop", "passthrough")


async def test_a_call_is_guarded_streamed_and_whole() -> None:
    streamed = await send([CALL], {**GUARDED, "live": True})
    whole = await send([CALL], GUARDED, headers={"x-request-id": "mine"})

    assert events_of(streamed.text) == [("word", 'get_weather{"city": "Paris"}'), ("stop", "rescued")]
    assert whole.json() == {"telegram": 'get_weather{"city": "Paris"}', "to": "mine"}
    assert whole.headers["x-forge-outcome"] == "rescued"
    assert whole.headers["x-forge-interventions"].startswith("rescued get_weather")


async def test_what_was_dropped_from_a_request_is_reported() -> None:
    whole = await send([CALL], {**GUARDED, "stamp": 1})
    relayed = await send([Said(text="It is sunny.")], {**PLAIN, "stamp": 1})
    streamed = await send([CALL], {**GUARDED, "stamp": 1, "live": True})

    said = [response.headers["x-forge-interventions"] for response in (whole, relayed, streamed)]
    assert said[0].startswith("dropped stamp: telegrams have none; rescued get_weather")
    assert said[1:] == ["dropped stamp: telegrams have none"] * 2


async def test_a_relayed_response_is_converted_to_the_format_of_the_surface() -> None:
    response = await send([Said(text="It is sunny.")], PLAIN)

    assert response.json()["telegram"] == "It is sunny."
    assert response.headers["x-forge-outcome"] == "passthrough"


@pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
async def test_an_error_before_the_head_has_its_status_and_the_envelope_of_the_surface(live: bool) -> None:
    overloaded = Said(status=429, body={"error": {"message": "slow down", "type": "busy"}})
    response = await send([overloaded], {**PLAIN, "live": live})

    assert response.status_code == 429
    assert response.json() == {"fault": {"reason": "slow down", "name": None, "field": None, "kind": "busy"}}


async def test_an_error_in_mid_stream_is_an_event_of_the_surface() -> None:
    broken = Said(text="It is sunny.", breaks_off=True)
    response = await send([broken], {**PLAIN, "live": True}, stream_errors="event")

    *words, (last, data) = events_of(response.text)
    assert response.status_code == 200
    assert "".join(text for _, text in words).startswith("It is")
    assert (last, data["fault"]["name"]) == ("fault", "backend_broke_off")


async def test_without_error_events_a_broken_stream_has_no_end() -> None:
    sent = await sends(Chunk((Delta(text="It is"),)), BackendBroke("http://m", "closed"))

    assert [message["body"] for message in sent[1:]] == [b'event: word\n"It is"\a\n']
    assert sent[-1]["more_body"]


async def test_silence_is_filled_with_keepalives_of_the_surface() -> None:
    sent = await sends(PAUSE, PAUSE, Chunk((Delta(text="It is"),)), PAUSE, DONE)

    assert sent[0]["type"] == "http.response.start"
    names = [name for name, _ in events_of(b"".join(message["body"] for message in sent[1:]).decode())]
    begun = names.index("word")
    assert set(names[:begun]) == {"tick"}
    assert set(names[begun + 1 : -1]) == {"tick"}
    assert names[-1] == "stop"


async def test_a_surface_without_comments_sends_none() -> None:
    compaction = ContextCompacted("r", None, 1, 1, 900, 400, exact=True)
    sent = await sends(PAUSE, compaction, Report(Outcome.RETRIED, 2), keepalive_seconds=60)

    assert [message["body"] for message in sent[1:]] == [b'event: stop\n"retried"\a\n']


@pytest.mark.parametrize(
    ("method", "path", "body", "server", "status", "name"),
    [
        ("POST", TELEGRAMS, {"text": 3}, {}, 400, None),
        ("POST", TELEGRAMS, b"{", {}, 400, None),
        ("POST", TELEGRAMS, PLAIN, {"api_keys": ["k" * 8]}, 401, "invalid_api_key"),
        ("POST", TELEGRAMS, {"text": "x" * 200}, {"max_body_mb": 0.0001}, 413, "body_too_large"),
        ("GET", TELEGRAMS, None, {}, 405, None),
        ("GET", f"{TELEGRAMS}/3", None, {}, 404, None),
        ("POST", f"{TELEGRAMS}/3", {}, {"api_keys": ["k" * 8]}, 401, "invalid_api_key"),
    ],
)
async def test_errors_below_the_prefix_have_the_envelope_of_the_surface(
    method: str, path: str, body: Any, server: dict[str, Any], status: int, name: str | None
) -> None:
    response = await send([], body, method=method, path=path, **server)

    assert (response.status_code, response.json()["fault"]["name"]) == (status, name)
    assert response.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/v9/telegramsx", "/v9", "/v1/chat/completions", "/nowhere"])
async def test_errors_of_other_paths_have_openais_envelope(path: str) -> None:
    response = await send([], {"text": 3}, path=path)

    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


async def test_the_longest_prefix_decides() -> None:
    def outer(_: ClassifiedError) -> JsonObject:
        return {}

    envelopes = ErrorEnvelopes({"/v9": outer, TELEGRAMS: encode_fault}, CHAT_COMPLETIONS.encode_error)

    assert envelopes.envelope_for(f"{TELEGRAMS}/3") is encode_fault
    assert envelopes.envelope_for("/v9/letters") is outer
    assert envelopes.envelope_for("/v90") is CHAT_COMPLETIONS.encode_error


@pytest.mark.parametrize(
    ("target", "key"), [(TELEGRAMS, "fault"), (f"{TELEGRAMS}/3?a=/b", "fault"), ("/v1/models", "error"), ("", "error")]
)
async def test_errors_of_the_connection_itself_have_the_envelope_of_the_path(target: str, key: str) -> None:
    envelopes = ErrorEnvelopes({TELEGRAMS: encode_fault}, CHAT_COMPLETIONS.encode_error)
    supervisor = ConnectionSupervisor(ConnectionLimits(1000))
    config = uvicorn.Config(unused, interface="asgi3", log_config=None, access_log=False, lifespan="off")
    protocol: Any = http_protocol(supervisor, envelopes)(config, ServerState(), {})
    client = Recorder()
    protocol.connection_made(client)

    protocol.data_received(f"GET {target} HTTP/1.1\r\nx-long: {'x' * 2000}\r\n\r\n".encode())
    await asyncio.sleep(0)  # the transport writes at the end of this turn of the event loop

    head, _, body = client.received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 " if target else b"HTTP/1.1 400 ")
    assert list(json.loads(body)) == [key]


async def unused(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the application is not called")


async def test_the_code_and_field_of_an_error_are_logged_whatever_its_envelope(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "forge_proxy.api"):
        await send([], {"text": 3})

    (record,) = [record for record in caplog.records if record.name == "forge_proxy.api"]
    line: dict[str, Any] = record.__dict__["log_fields"]
    assert {"event": "rejected", "status": 400, "path": TELEGRAMS, "param": "text"}.items() <= line.items()


async def test_the_surface_describes_itself() -> None:
    described = (await send([], None, method="GET", path="/openapi.json")).json()

    assert list(described["paths"])[:3] == ["/v1/chat/completions", "/chat/completions", TELEGRAMS]
    assert described["components"]["schemas"]["Telegram"] == {"type": "object"}


PAUSE = object()
"""Where the engine waits until something is sent."""
DONE = Report(Outcome.PASSTHROUGH)


async def sends(*steps: object, keepalive_seconds: float = 0.01, encoder: StreamEncoder | None = None) -> list[Message]:
    """What is sent while the engine goes through these steps."""
    sent: list[Message] = []
    more = asyncio.Event()

    async def answer() -> AsyncGenerator[AnswerEvent]:
        for step in steps:
            if step is PAUSE:
                more.clear()
                await more.wait()
            elif isinstance(step, Exception):
                raise step
            else:
                assert isinstance(step, Chunk | ContextCompacted | Report)
                yield step

    async def record(message: Message) -> None:
        sent.append(message)
        more.set()

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    config = ServerConfig(first_event_seconds=0.01, keepalive_seconds=keepalive_seconds)
    async with asyncio.timeout(30):
        await StreamingAnswer(answer(), encoder or TelegramEncoder(), config, {})({}, receive, record)
    return sent


class Recorder(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.received = b""

    def write(self, data: Any) -> None:
        self.received += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass
