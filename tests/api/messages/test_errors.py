"""Errors in Anthropic's format, with the request's id in the body and in both headers."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import ErrorResponse

from forge_proxy.core.budget import BudgetMode, BudgetPolicy
from tests.api.messages.world import GUARDED, MESSAGES, PLAIN, USER, Answer, post, scripted_app, send
from tests.fakes.message_events import check_fields
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
OVERFLOW = {
    "error": {
        "code": 400,
        "message": "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000,
        "n_ctx": 8192,
    }
}


def error_of(answer: Answer) -> tuple[int, str, str]:
    """The status, type and message of an error, which is what the SDK's types say."""
    body = answer.response.json()
    check_fields(ErrorResponse.model_validate(body))
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    return answer.status, body["error"]["type"], body["error"]["message"]


@both
async def test_an_overflow_has_the_sentence_by_which_clients_compact(stream: bool) -> None:
    answer = await send([Said(status=400, body=OVERFLOW)], GUARDED, stream=stream)

    assert error_of(answer) == (400, "invalid_request_error", "prompt is too long: 9000 tokens > 8192 maximum")


async def test_a_prompt_over_the_budget_has_the_same_error_message() -> None:
    http = ScriptedHttp([])
    long = {**PLAIN, "messages": [{**USER, "content": "word " * 4000}]}

    answer = Answer(await post(scripted_app(http, budget=BudgetPolicy(mode=BudgetMode.MANUAL, tokens=300)), long), [])

    status, kind, message = error_of(answer)
    assert (status, kind) == (400, "invalid_request_error")
    assert message.startswith("prompt is too long: ")
    assert message.endswith(" tokens > 300 maximum")


@both
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (429, "rate_limit_error"), (500, "api_error"), (529, "overloaded_error")],
)
async def test_an_error_of_the_model_server_has_the_type_of_its_status(stream: bool, status: int, kind: str) -> None:
    said = Said(status=status, body={"error": {"message": "slow down", "type": "busy"}})

    answer = await send([said], PLAIN, stream=stream)

    assert error_of(answer) == (status, kind, "slow down")


@pytest.mark.parametrize(
    ("path", "body", "server", "status", "kind"),
    [
        (MESSAGES, b"{", {}, 400, "invalid_request_error"),
        (MESSAGES, PLAIN, {"api_keys": ["k" * 8]}, 401, "authentication_error"),
        (f"{MESSAGES}/count_tokens", PLAIN, {"api_keys": ["k" * 8]}, 401, "authentication_error"),
        (MESSAGES, {"messages": "x" * 200}, {"max_body_mb": 0.0001}, 413, "invalid_request_error"),
        (f"{MESSAGES}/batches", PLAIN, {}, 404, "not_found_error"),
        (f"{MESSAGES}/count_tokens", {"messages": 3}, {}, 400, "invalid_request_error"),
    ],
)
async def test_errors_below_the_path_have_anthropics_format(
    path: str, body: Any, server: dict[str, Any], status: int, kind: str
) -> None:
    answer = Answer(await post(scripted_app(ScriptedHttp([]), **server), body, path), [])

    assert error_of(answer)[:2] == (status, kind)


async def test_errors_of_other_paths_keep_their_format_and_headers() -> None:
    response = await post(scripted_app(ScriptedHttp([])), {"messages": 3}, "/v1/chat/completions")

    assert set(response.json()) == {"error"}
    assert "request-id" not in response.headers


@pytest.mark.parametrize("header", [{"authorization": "Bearer kkkkkkkk"}, {"x-api-key": "kkkkkkkk"}])
async def test_a_key_is_accepted_in_either_header(header: dict[str, str]) -> None:
    answer = await send([Said(text="Yes.")], PLAIN, headers=header, api_keys=["k" * 8])

    assert answer.status == 200
    assert answer.headers["request-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("body", [PLAIN, GUARDED], ids=["relayed", "guarded"])
async def test_an_error_within_a_stream_is_an_event(body: dict[str, Any]) -> None:
    broken = Said(text="It is sunny and warm.", breaks_off=True)

    answer = await send([broken] * 9, body, stream=True, headers={"x-request-id": "r"})

    if answer.status == 200:
        last = answer.events[-1]
        assert (last["type"], last["error"]["type"], last["request_id"]) == ("error", "api_error", "r")
    else:  # nothing had been sent
        assert error_of(answer)[:2] == (502, "api_error")
    assert "message_stop" not in answer.response.text


async def test_the_field_of_an_invalid_request_is_named() -> None:
    source = {"type": "file", "file_id": "file_1"}
    body = {**PLAIN, "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}

    answer = await send([], body)

    assert error_of(answer)[2].startswith("messages[0].content[0].source: the daemon stores no files")
