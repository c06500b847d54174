"""A model server that exits during a response: retried if nothing was sent, otherwise a retriable error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forge_proxy.core.backend_errors import BackendDown, BackendLost, BackendNotReady, BackendTimeout
from forge_proxy.core.guardrails import FinalAnswer, GuardPolicy, Outcome, open_turn
from forge_proxy.core.guardrails.learned_policy import LearnedPolicy
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.engine.events import Event, LostResponseRetried
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.says import Said
from tests.fakes.scripted import chat

LOST = BackendLost("http://model", "it was killed by SIGKILL", 2)
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
guarded_too = pytest.mark.parametrize("tools", [{}, {"tools": [TOOL]}], ids=["passed-through", "guarded"])


@both
@guarded_too
async def test_a_request_is_retried_if_the_server_ends_before_anything_was_sent(
    tools: dict[str, Any], stream: bool
) -> None:
    heard: list[Event] = []
    call = Said(calls=(("get_weather", "{}"),)) if tools else Said("sunny")

    answer = await chat([LOST, LOST, call], {**BODY, **tools}, stream=stream, heard=heard)

    assert (answer.status, answer.text, answer.calls) == (200, call.text, [("get_weather", {})] if tools else [])
    assert answer.attempts == 1
    assert [event.error for event in heard if isinstance(event, LostResponseRetried)] == [LOST.summary] * 2
    assert answer.asked[0] == answer.asked[2]


@both
@guarded_too
async def test_a_request_that_ends_every_server_is_aborted_with_an_error_that_clients_retry(
    tools: dict[str, Any], stream: bool
) -> None:
    answer = await chat([LOST, LOST, LOST, Said("too late")], {**BODY, **tools}, stream=stream)

    assert answer.status == 503
    assert answer.error
    assert answer.error["code"] == "backend_restarting"
    assert "killed by SIGKILL" in answer.error["message"]


@pytest.mark.parametrize(
    ("fault", "code", "word"),
    [
        (BackendNotReady("llama-server", "loading for 900 s", 5), "backend_loading", "loading for 900 s"),
        (BackendDown("llama-server", "it crashed 3 times in a row"), "backend_down", "3 times"),
    ],
)
async def test_a_server_that_does_not_start_is_a_503_with_the_reason(fault: Exception, code: str, word: str) -> None:
    answer = await chat([fault], BODY)

    assert answer.status == 503
    assert answer.error
    assert answer.error["code"] == code
    assert word in answer.error["message"]


FAILED = Said(status=500, body={"error": {"message": "boom"}})
GUARDED: dict[str, Any] = {**BODY, "tools": [TOOL]}
WRONG = Said(calls=(("get_weather", '{"city": 5}'),))
STRICT: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"properties": {"city": {"enum": ["Paris"]}}}},
}


@both
@pytest.mark.parametrize("failure", [FAILED, LOST, BackendTimeout("http://model", 9)], ids=["500", "lost", "silent"])
async def test_text_whose_retry_fails_is_delivered_as_without_the_proxy(
    failure: Said | Exception, stream: bool
) -> None:
    answer = await chat([Said("sunny"), failure, failure, failure], GUARDED, stream=stream)

    assert (answer.status, answer.text, answer.finish) == (200, "sunny", "stop")
    assert stream or "before a retry that the model server failed" in (answer.marks or "")


@both
async def test_an_invalid_call_whose_retry_fails_is_delivered_as_exhausted(stream: bool) -> None:
    answer = await chat([WRONG, FAILED], {**BODY, "tools": [STRICT]}, stream=stream)

    assert (answer.status, answer.calls) == (200, [("get_weather", {"city": 5})])
    assert stream or answer.outcome == "exhausted"


@pytest.mark.parametrize("stream", [False])
async def test_the_error_of_a_retry_is_returned_if_nothing_earlier_can_be_delivered(stream: bool) -> None:
    markup = Said('<tool_call>{"name": "get_weather", "arguments": {"city": ')
    demanded = {**GUARDED, "tool_choice": "required"}

    assert (await chat([markup, FAILED], GUARDED, stream=stream)).status == 500
    assert (await chat([Said("sunny"), FAILED], demanded, stream=stream)).status == 500


async def test_nothing_is_learned_of_a_model_from_a_retry_that_failed() -> None:
    figures = LearnedPolicy()
    settled = FinalAnswer("sunny", (), "stop", Outcome.RETRIED, 2, is_before_failed_retry=True)

    turn = open_turn(decode_request(GUARDED), GuardPolicy(), request_id="r", nudge_text=True)
    assert turn is not None
    figures.record_answer("m", replace(turn, faults=(Fault.TEXT_ONLY,)), settled)

    assert figures.records == {}
