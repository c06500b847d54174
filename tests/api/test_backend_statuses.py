"""Statuses of the model server: the client gets a 4xx only if its own request is wrong."""

from __future__ import annotations

import pytest

from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, chat
from tests.folding import folded

BODY: JsonDict = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TOOL: JsonDict = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
guarded_too = pytest.mark.parametrize("tools", [{}, {"tools": [TOOL]}], ids=["passed-through", "guarded"])

TABLE: list[tuple[int, str, int, str]] = [
    # the server's status and message, the client's status, and why
    (400, "temperature: expected a number", 400, "the request's form: its client mends it"),
    (400, "maximum context length is 8 tokens", 400, "clients compact on it"),
    (413, "too large", 413, "the request's size: its client sends less"),
    (422, "field required", 422, "the request's form"),
    (429, "slow down", 429, "clients come again later, with retry-after"),
    (404, "model 'x' not found", 404, "the client named the model"),
    (404, "The model `x` does not exist.", 404, "the client named the model"),
    (404, "Not Found", 502, "a route: backend.url is wrong"),
    (404, "File Not Found", 502, "a route: backend.url is wrong"),
    (401, "Invalid API Key", 502, "our key, not the client's, which would ask its user for another"),
    (402, "no credit", 502, "our account"),
    (403, "forbidden", 502, "our key"),
    (407, "proxy authentication required", 502, "our way to the server"),
    (405, "method not allowed", 502, "how we ask"),
    (406, "not acceptable", 502, "how we ask"),
    (408, "timeout", 504, "the server was slow"),
    (409, "conflict", 503, "the server's state"),
    (410, "gone", 502, "the server's state"),
    (411, "length required", 502, "how we ask"),
    (415, "unsupported media type", 502, "how we ask"),
    (418, "a teapot", 502, "nobody knows"),
    (421, "misdirected", 502, "our way to the server"),
    (425, "too early", 503, "the server's state"),
    (426, "upgrade required", 502, "how we ask"),
    (431, "headers too large", 502, "how we ask"),
    (451, "unavailable", 502, "the server's decision"),
    (499, "client closed", 502, "the server's view of us"),
    (500, "out of memory", 500, "the server's own"),
    (501, "not implemented", 501, "the server's own"),
    (503, "loading model", 503, "the server's own"),
    (529, "overloaded", 529, "the server's own"),
    (599, "odd", 599, "the server's own"),
]


@folded
@both
@guarded_too
@pytest.mark.parametrize(("status", "message", "expected", "reason"), TABLE, ids=lambda value: str(value)[:20])
async def test_an_error_of_the_server_is_a_4xx_only_if_the_request_is_wrong(
    status: int, message: str, expected: int, reason: str, tools: JsonDict, stream: bool
) -> None:
    refusal = Said(status=status, body={"error": {"message": message}})

    answer = await chat([refusal] * 8, {**BODY, **tools}, stream=stream)

    assert answer.status == expected, reason
    assert answer.error
    assert message in answer.error["message"]
    assert answer.error["type"] == ("invalid_request_error" if expected < 500 else "server_error")


async def test_the_error_for_a_missing_model_has_a_remedy() -> None:
    refusal = Said(status=404, body={"error": {"message": "model 'x' not found"}})

    answer = await chat([refusal], BODY)

    assert answer.error
    assert answer.error["code"] == "model_not_found"
    assert "backend.model" in answer.error["message"]


async def test_a_missing_route_names_the_setting() -> None:
    answer = await chat([Said(status=404, body={"detail": "Not Found"})], BODY)

    assert answer.error
    assert "check the path of backend.url" in answer.error["message"]


@folded
@pytest.mark.parametrize("status", [204, 201, 301, 302, 307, 308, 101, 600, 700, 999])
@both
async def test_an_unexpected_status_is_named(status: int, stream: bool) -> None:
    answer = await chat([Said(status=status)] * 4, BODY, stream=stream)

    assert answer.status == 502
    assert answer.error
    assert f"answered {status}: " in answer.error["message"]
