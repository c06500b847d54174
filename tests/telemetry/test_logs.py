"""A failed request is logged with its reason on one line, without any part of a prompt or a response."""

from __future__ import annotations

import json
import logging
from contextvars import copy_context
from typing import Any

import httpx
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.redaction import redact_quotes
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import (
    AttemptRetried,
    Event,
    FieldsOmitted,
    PromptTruncated,
    RequestAnswered,
    RequestFailed,
    RequestRewritten,
)
from forge_proxy.engine.request_context import REQUEST_ID
from forge_proxy.telemetry.config import LogConfig
from forge_proxy.telemetry.log_events import to_log_line
from forge_proxy.telemetry.logs import LogObserver, configure
from tests.api.test_mistakes import ASK, RIGHT
from tests.fakes.records import make_record
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock, chat
from tests.fakes.serving import served
from tests.properties import examples

PROMPT = "Please book a table for two at Chez Panisse under the name of Mallory tonight."
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}, {"role": "user", "content": "hunter2"}]}


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        ("no memory left", "no memory left"),
        ("unknown field 'foo' in tools[0].function", "unknown field 'foo' in tools[0].function"),
        (f"cannot parse: {PROMPT}", "cannot parse:…"),
        (f"cannot parse {json.dumps(ASKED)}", "cannot parse…"),
        (f"cannot parse '{PROMPT[7:20]}'", "cannot parse …"),
        ("wrong token 'hunter2' at 3", "wrong token … at 3"),
        ("wrong token hunter2 at 3", "wrong token…"),
        ("template failed on <|im_start|>user\nPlease", "template failed on…"),
        ("first line\nsecond line", "first line…"),
        ("x" * 1000, "x" * 200 + "…"),
        ({"odd": "shape"}, ""),
    ],
)
def test_an_error_message_is_logged_without_the_prompt(message: str | dict[str, str], logged: str) -> None:
    assert redact_quotes(message if isinstance(message, str) else repr(message), ASKED) == logged


@examples(300)
@given(
    prompt=st.text(alphabet=st.characters(codec="ascii", categories=["L", "N"]), min_size=40, max_size=200),
    before=st.sampled_from(["", "cannot read ", "error: ", "at '"]),
    begin=st.integers(0, 10),
)
def test_at_most_the_first_characters_of_a_quoted_prompt_are_logged(prompt: str, before: str, begin: int) -> None:
    logged = redact_quotes(f"{before}{prompt[begin:]} (1)", {"messages": [{"role": "user", "content": prompt}]})

    assert all(prompt[at : at + 24] not in logged for at in range(len(prompt) - 23))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_failed_event_contains_the_message_of_the_model_server(stream: bool) -> None:
    events: list[Event] = []
    error = {"error": {"message": f"no memory left for: {ASK['messages'][0]['content']}"}}

    await chat([Said(status=500, body=error)], ASK, stream=stream, heard=events)

    (failed,) = [event for event in events if isinstance(event, RequestFailed)]
    assert failed.record.error == "the model server at http://scripted answered 500: no memory left for:…"


@pytest.mark.parametrize(
    ("response", "tool", "reason"),
    [
        (Said(calls=(("get_weather", '{"city": "Secret"}'),)), "get_weather", "`days`: required, missing"),
        (
            Said(calls=(("get_weather", '{"city": "Secret", "days": "Secret"}'),)),
            "get_weather",
            "`days`: expected integer",
        ),
        (Said(calls=(("get_weather", '{"city": "Secret'),)), "get_weather", "arguments: are not a JSON object"),
        (Said(calls=(("nonsense", "{}"),)), "nonsense", ""),
        (Said(text="Secret"), "", ""),
    ],
    ids=["missing", "wrong type", "no JSON", "unknown tool", "text"],
)
async def test_a_retry_is_logged_with_tool_and_reason_but_no_values(response: Said, tool: str, reason: str) -> None:
    events: list[Event] = []

    await chat([response, RIGHT], ASK, heard=events)

    (retried,) = [to_log_line(event) for event in events if isinstance(event, AttemptRetried)]
    assert (retried.fields.get("tool", ""), retried.fields.get("reason", "")) == (tool, reason)
    assert "Secret" not in str(retried)


def test_counts_of_any_size_are_logged(capfd: pytest.CaptureFixture[str]) -> None:
    writer = configure(LogConfig(format="json"))
    try:
        report = Report(Outcome.CLEAN, tokens=2**70)
        LogObserver(structlog.get_logger())(RequestAnswered(make_record(report), report))
    finally:
        writer.close()
        structlog.reset_defaults()

    (line,) = [line for line in capfd.readouterr().err.splitlines() if '"answered"' in line]
    assert json.loads(line)["tokens"] == 2**70


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "fields"),
    [
        ("POST", "/v1/chat/completions", {"messages": "Secret"}, 400, {"param": "messages"}),
        ("POST", "/v1/chat/completions", b"Secret{", 400, {"param": "body"}),
        ("GET", "/v1/models/none", None, 404, {"code": "model_not_found"}),
        ("GET", "/nowhere?key=Secret", None, 404, {}),
        ("GET", "/v1/chat/completions", None, 405, {}),
    ],
)
async def test_a_rejected_request_is_logged_on_one_line_without_its_content(
    caplog: pytest.LogCaptureFixture, method: str, path: str, body: Any, status: int, fields: dict[str, str]
) -> None:
    http = ScriptedHttp([])
    backend = OpenAICompatible("http://scripted", http)
    events: list[Event] = []
    app = create_app(Engine(EngineConfig(backend, StillClock(), events.append)), backend, ServerConfig())
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()

    with caplog.at_level(logging.WARNING, "forge_proxy.api"):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            response = await client.request(method, path, content=content, headers={"x-request-id": "mine"})

    (record,) = [record for record in caplog.records if record.name == "forge_proxy.api"]
    line: dict[str, Any] = record.__dict__["log_fields"]
    assert response.status_code == status
    assert {"event": "rejected", "request_id": "mine", "method": method, "status": status}.items() <= line.items()
    assert fields.items() <= line.items()
    assert line["path"] == path.split("?")[0]
    assert "Secret" not in str(line)


async def test_a_successful_response_is_not_logged_as_rejected(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "forge_proxy.api"):
        await chat([RIGHT], ASK)

    assert not caplog.records


def test_a_memory_error_is_logged_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    writer = configure(LogConfig(format="json"))
    uvicorn = logging.getLogger("uvicorn.error")
    for fault in (MemoryError(), RuntimeError("a bug")):
        uvicorn.error("Exception in ASGI application", exc_info=fault)
    writer.close()

    (line,) = capfd.readouterr().err.splitlines()
    assert "a bug" in line


async def test_an_error_inside_the_daemon_is_logged_with_the_id_of_its_response(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def fail(_: Request) -> Response:
        raise RuntimeError("a bug")

    backend = OpenAICompatible("http://scripted", ScriptedHttp([]))
    app = create_app(Engine(EngineConfig(backend, StillClock(), [].append)), backend, ServerConfig())
    app.add_route("/fails", fail, methods=["GET"])
    writer = configure(LogConfig(format="json"))
    try:
        async with served(app) as url, httpx.AsyncClient() as client:
            answer = await client.get(f"{url}/fails")
    finally:
        writer.close()
        structlog.reset_defaults()

    (line,) = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "a bug" in line]
    assert answer.status_code == 500
    assert line["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "event", [PromptTruncated("m", 12, 3333), RequestRewritten("m", ("no temperature",)), FieldsOmitted(("x",))]
)
def test_what_a_request_shows_about_the_model_server_is_logged_with_its_id(event: Event) -> None:
    def line_of(request_id: str) -> dict[str, Any]:
        REQUEST_ID.set(request_id)
        return to_log_line(event).fields

    assert copy_context().run(line_of, "mine")["request_id"] == "mine"
    assert "request_id" not in copy_context().run(line_of, "")
