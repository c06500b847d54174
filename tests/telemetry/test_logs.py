"""What the log says of requests that fail: why, on one line, and nothing of a prompt or an answer."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy, Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.redaction import without_quotes
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import AttemptRetried, Event, RequestAnswered, RequestFailed
from forge_proxy.telemetry.config import LogConfig
from forge_proxy.telemetry.log_events import line_of
from forge_proxy.telemetry.logs import LogObserver, configure
from tests.api.test_mistakes import ASK, RIGHT
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock, chat
from tests.properties import examples

PROMPT = "Please book a table for two at Chez Panisse under the name of Mallory tonight."
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}, {"role": "user", "content": "hunter2"}]}


@pytest.mark.parametrize(
    ("words", "shown"),
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
def test_the_words_of_an_error_are_logged_without_the_prompt(words: str | dict[str, str], shown: str) -> None:
    assert without_quotes(words if isinstance(words, str) else repr(words), ASKED) == shown


@examples(300)
@given(
    prompt=st.text(alphabet=st.characters(codec="ascii", categories=["L", "N"]), min_size=40, max_size=200),
    before=st.sampled_from(["", "cannot read ", "error: ", "at '"]),
    begin=st.integers(0, 10),
)
def test_no_quote_of_a_prompt_is_logged_but_for_its_first_letters(prompt: str, before: str, begin: int) -> None:
    shown = without_quotes(f"{before}{prompt[begin:]} (1)", {"messages": [{"role": "user", "content": prompt}]})

    assert all(prompt[at : at + 24] not in shown for at in range(len(prompt) - 23))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_words_of_the_model_server_are_in_the_failed_event(stream: bool) -> None:
    heard: list[Event] = []
    error = {"error": {"message": f"no memory left for: {ASK['messages'][0]['content']}"}}

    await chat([Said(status=500, body=error)], ASK, stream=stream, heard=heard)

    (failed,) = [event for event in heard if isinstance(event, RequestFailed)]
    assert failed.error == "the model server at http://scripted answered 500: no memory left for:…"


@pytest.mark.parametrize(
    ("said", "tool", "reason"),
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
async def test_a_retry_is_logged_with_tool_and_reason_and_without_values(said: Said, tool: str, reason: str) -> None:
    heard: list[Event] = []

    await chat([said, RIGHT], ASK, heard=heard)

    (retried,) = [line_of(event) for event in heard if isinstance(event, AttemptRetried)]
    assert (retried.fields.get("tool", ""), retried.fields.get("reason", "")) == (tool, reason)
    assert "Secret" not in str(retried)


def test_counts_of_any_size_are_logged(capfd: pytest.CaptureFixture[str]) -> None:
    writer = configure(LogConfig(format="json"))
    try:
        LogObserver(structlog.get_logger())(RequestAnswered("r", "m", Report(Outcome.CLEAN, tokens=2**70), 0.1, 0.0))
    finally:
        writer.close()
        structlog.reset_defaults()

    (line,) = [line for line in capfd.readouterr().err.splitlines() if '"answered"' in line]
    assert json.loads(line)["tokens"] == 2**70


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/v1/chat/completions", {"messages": "Secret"}, 400, {"param": "messages"}),
        ("POST", "/v1/chat/completions", b"Secret{", 400, {"param": "body"}),
        ("GET", "/v1/models/none", None, 404, {"code": "model_not_found"}),
        ("GET", "/nowhere?key=Secret", None, 404, {}),
        ("GET", "/v1/chat/completions", None, 405, {}),
    ],
)
async def test_a_rejected_request_is_logged_on_one_line_without_its_content(
    caplog: pytest.LogCaptureFixture, method: str, path: str, body: Any, status: int, said: dict[str, str]
) -> None:
    http = ScriptedHttp([])
    backend = OpenAICompatible("http://scripted", http)
    heard: list[Event] = []
    app = create_app(Engine(backend, StillClock(), heard.append), backend, GuardPolicy(), ServerConfig())
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()

    with caplog.at_level(logging.WARNING, "forge_proxy.api"):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            response = await client.request(method, path, content=content, headers={"x-request-id": "mine"})

    (record,) = [record for record in caplog.records if record.name == "forge_proxy.api"]
    line: dict[str, Any] = record.__dict__["log_fields"]
    assert response.status_code == status
    assert {"event": "rejected", "request_id": "mine", "method": method, "status": status}.items() <= line.items()
    assert said.items() <= line.items()
    assert line["path"] == path.split("?")[0]
    assert "Secret" not in str(line)


async def test_a_response_that_is_none_of_these_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "forge_proxy.api"):
        await chat([RIGHT], ASK)

    assert not caplog.records


def test_a_lack_of_memory_is_logged_by_its_own_line_and_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    writer = configure(LogConfig(format="json"))
    uvicorn = logging.getLogger("uvicorn.error")
    for fault in (MemoryError(), RuntimeError("a bug")):
        uvicorn.error("Exception in ASGI application", exc_info=fault)
    writer.close()

    (line,) = capfd.readouterr().err.splitlines()
    assert "a bug" in line
