"""The statistics of plain-text responses: shown, reset, and protected like every other route."""

from __future__ import annotations

import httpx
import pytest

from tests.api.admin.world import world
from tests.api.test_mistakes import ASK, PARIS_TEXT, RIGHT
from tests.fakes.says import Said

PATH = "/admin/v1/text-responses"
TEXT = Said(text="It is sunny.")
OTHER = Said(calls=(("get_weather", '{"city": "Oslo", "days": 1}'),))


async def ask(client: httpx.AsyncClient, model: str, times: int = 1) -> None:
    for _ in range(times):
        answer = await client.post("/v1/chat/completions", json={**ASK, "model": model})
        assert answer.status_code == 200


async def test_statistics_belong_to_the_model_that_responded_under_any_requested_name() -> None:
    async with world(TEXT, TEXT, TEXT, RIGHT, OTHER) as client:
        before = await client.get(PATH)
        await ask(client, "gpt-9")
        await ask(client, "scripted")
        call = {"id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": PARIS_TEXT}}
        result = {"role": "tool", "tool_call_id": "call_0", "content": "sunny"}
        messages = [*ASK["messages"], {"role": "assistant", "content": None, "tool_calls": [call]}, result]
        await client.post("/v1/chat/completions", json={**ASK, "messages": messages})
        after = await client.get(PATH, headers={"x-request-id": "mine"})

    assert before.json() == {"object": "list", "text_responses": "auto", "text_answers": "auto", "data": []}
    figures = {
        "model": "scripted",
        "texts": 2,
        "nudges": 2,
        "calls": 1,
        "share": 0.5,
        "effective": "nudge",
        "now": "nudge",
    }
    assert after.json()["data"] == [figures]
    assert after.headers["x-request-id"] == "mine"


async def test_eight_failed_retries_are_shown_change_the_policy_and_can_be_reset() -> None:
    async with world(*[TEXT] * 19) as client:
        await ask(client, "scripted", times=9)
        (learned,) = (await client.get(PATH)).json()["data"]
        forgotten = await client.delete(f"{PATH}/scripted")
        await ask(client, "scripted")
        (anew,) = (await client.get(PATH)).json()["data"]
        all_forgotten = await client.delete(PATH)

    figures = {"model": "scripted", "texts": 9, "nudges": 8, "calls": 0, "share": 0.0}
    assert learned == {**figures, "effective": "accept", "now": "accept"}
    assert (forgotten.status_code, forgotten.json()["data"]) == (200, [])
    assert (anew["nudges"], anew["effective"]) == (1, "nudge")
    assert all_forgotten.json()["data"] == []


async def test_text_that_was_never_retried_has_no_success_rate() -> None:
    async with world(TEXT, guardrails={"text_responses": "accept"}) as client:
        await ask(client, "scripted")
        said = (await client.get(PATH)).json()

    figures = {"model": "scripted", "texts": 1, "nudges": 0, "calls": 0, "share": None}
    assert (said["text_responses"], said["data"]) == ("accept", [{**figures, "effective": "accept", "now": "accept"}])


async def test_an_unknown_model_is_a_404_that_lists_the_known_ones() -> None:
    async with world(TEXT, TEXT) as client:
        await ask(client, "scripted")
        answer = await client.delete(f"{PATH}/org/other")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (404, "model_not_found", "invalid_request_error")
    assert "'org/other'" in error["message"]
    assert "scripted" in error["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_statistics_require_a_key(method: str) -> None:
    async with world(server={"api_keys": ["sk-alice"]}) as client:
        without = await client.request(method, PATH)
        withal = await client.request(method, PATH, headers={"x-api-key": "sk-alice"})

    assert (without.status_code, without.json()["error"]["code"]) == (401, "invalid_api_key")
    assert withal.status_code == 200


async def test_another_method_is_a_405_that_lists_the_allowed_ones() -> None:
    async with world() as client:
        answer = await client.post(PATH)

    assert (answer.status_code, answer.json()["error"]["type"]) == (405, "invalid_request_error")
    assert answer.json()["error"]["message"].endswith("Method Not Allowed; use DELETE or GET")
    assert answer.headers["allow"] == "DELETE, GET"
