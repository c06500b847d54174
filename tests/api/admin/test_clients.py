"""The sets of tools that clients offer, how they end a task, and why the daemon takes a tool for terminal."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.admin.world import world
from tests.api.test_mistakes import ASK, PARIS_TEXT, RIGHT, WEATHER
from tests.api.test_terminal_tools import CLINE, END
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict

PATH = "/admin/v1/guardrails/clients"
DELIVER: JsonDict = {"type": "function", "function": {"name": "deliver"}}
TOOLS: JsonDict = {**ASK, "tools": [WEATHER, DELIVER]}
DELIVERED = Said(calls=(("deliver", "{}"),))


async def send(client: httpx.AsyncClient, body: JsonDict) -> httpx.Response:
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    return answer


def after_result(body: JsonDict, tool: str = "get_weather", arguments: str = PARIS_TEXT) -> JsonDict:
    """The request after a call of this tool and its result."""
    call: Any = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": arguments}}
    turn = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]
    return {**body, "messages": [*body["messages"], *turn]}


async def test_each_set_of_tools_is_shown_with_the_way_it_ends_a_task() -> None:
    async with world(RIGHT, END, RIGHT, Said(text="Hi.")) as client:
        await send(client, ASK)
        await send(client, CLINE)
        await send(client, ASK)
        await send(client, {"messages": ASK["messages"]})
        answer = await client.get(PATH, headers={"x-request-id": "mine"})

    terminal, text = answer.json()["data"]
    assert text == {
        "id": text["id"],
        "tools": ["get_weather"],
        "tool_count": 1,
        "kind": "text",
        "terminal_tools": [],
        "requests": 2,
        "idle_seconds": 0.0,
    }
    assert (terminal["kind"], terminal["tools"]) == ("terminal", ["attempt_completion", "get_weather"])
    assert terminal["terminal_tools"] == [{"name": "attempt_completion", "reason": "name"}]
    assert answer.headers["x-request-id"] == "mine"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_tool_that_is_never_answered_becomes_terminal_until_it_is_forgotten(stream: bool) -> None:
    tools = {**TOOLS, "stream": stream}
    async with world(*[RIGHT, DELIVERED] * 3, DELIVERED, DELIVERED) as client:
        before = [await send(client, body) for body in (tools, after_result(tools)) * 3]
        after = await send(client, tools)
        (learned,) = (await client.get(PATH)).json()["data"]
        forgotten = await client.delete(PATH)
        anew = await send(client, tools)

    mark = "respond not offered: deliver ends the task (evidence)"
    assert [mark in f"{answer.headers} {answer.text}" for answer in (*before, after, anew)] == [False] * 6 + [
        True,
        False,
    ]
    assert learned["terminal_tools"] == [{"name": "deliver", "reason": "evidence"}]
    assert (forgotten.status_code, forgotten.json()) == (200, {"object": "list", "data": []})


async def test_a_result_revokes_the_evidence_with_the_request_that_carries_it() -> None:
    async with world(*[RIGHT, DELIVERED] * 3, RIGHT) as client:
        for _ in range(3):
            await send(client, TOOLS)
            await send(client, after_result(TOOLS))
        answer = await send(client, after_result(TOOLS, "deliver", "{}"))

    assert "x-forge-interventions" not in answer.headers


async def test_retries_that_never_lead_to_a_call_stop_for_a_terminal_client_as_well() -> None:
    async with world(*[Said(text="Hm.")] * 33) as client:
        answers = [await send(client, CLINE) for _ in range(9)]

    assert [answer.headers["x-forge-attempts"] for answer in answers] == ["4"] * 8 + ["1"]


async def test_a_live_change_applies_from_the_next_request_on() -> None:
    async with world(RIGHT, RIGHT) as client:
        await send(client, ASK)
        await client.patch("/admin/v1/guardrails", json={"terminal_tools": ["get_*"]})
        await send(client, ASK)
        (shown,) = (await client.get(PATH)).json()["data"]

    assert shown["terminal_tools"] == [{"name": "get_weather", "reason": "configuration"}]


async def test_a_wrong_pattern_is_a_400_that_names_its_place() -> None:
    async with world() as client:
        answer = await client.patch("/admin/v1/guardrails", json={"terminal_tools": ["a", "!"]})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "terminal_tools.1")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_it_needs_a_key_like_everything_else(method: str) -> None:
    async with world(server={"api_keys": ["sk-alice"]}) as client:
        without = await client.request(method, PATH)
        withal = await client.request(method, PATH, headers={"x-api-key": "sk-alice"})

    assert (without.status_code, withal.status_code) == (401, 200)
