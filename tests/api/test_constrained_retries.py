"""Retries of an invalid call that the model server limits to calls of the offered tools, `respond` among them."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from forge_proxy.core.guardrails import GuardPolicy, Switches
from tests.api.test_mistakes import ASK, PARIS, PARIS_TEXT, RIGHT, WEATHER, both
from tests.fakes.says import Said
from tests.fakes.scripted import Answer, JsonDict, chat

UNKNOWN = Said(calls=(("nonsense", "{}"),))
INVALID = Said(calls=(("get_weather", '{"city": "Paris"}'),))
MALFORMED = Said(text="<tool_call>{")
AS_JSON = Said(text=f'{{"name": "get_weather", "arguments": {PARIS_TEXT}}}')
RESPOND_AS_JSON = Said(text='{"name": "respond", "arguments": {"message": "It is sunny."}}')
REFUSAL = Said(status=400, body={"error": {"message": "unknown field response_format"}})
ALWAYS = GuardPolicy(constrain_retries="always")


def constrained(answer: Answer) -> list[bool]:
    """Whether each request limited the model server to calls."""
    return ["response_format" in asked or asked.get("tool_choice") == "required" for asked in answer.asked]


@both
async def test_the_last_retry_of_an_invalid_call_is_limited_to_calls_of_the_offered_tools(stream: bool) -> None:
    answer = await chat([UNKNOWN, INVALID, MALFORMED, AS_JSON], ASK, stream=stream)

    assert (answer.calls, answer.text, answer.attempts) == ([("get_weather", PARIS)], None, 4)
    assert constrained(answer) == [False, False, False, True]
    last: Any = answer.asked[3]
    schema = last["response_format"]["json_schema"]["schema"]
    assert [tool["properties"]["name"]["const"] for tool in schema["anyOf"]] == ["get_weather", "respond"]
    assert jsonschema_rs.is_valid(schema, {"name": "get_weather", "arguments": PARIS})
    assert not jsonschema_rs.is_valid(schema, {"name": "get_weather", "arguments": {"city": "Paris"}})
    assert last["tool_choice"] == "none"
    assert last["tools"] == answer.asked[0]["tools"]  # so that the prompt prefix stays cached


@both
async def test_a_constrained_retry_may_still_end_in_text(stream: bool) -> None:
    answer = await chat([UNKNOWN, RESPOND_AS_JSON], ASK, stream=stream, policy=ALWAYS)

    assert (answer.text, answer.calls, answer.finish) == ("It is sunny.", [], "stop")
    assert constrained(answer) == [False, True]


@both
@pytest.mark.parametrize("first", [UNKNOWN, INVALID, MALFORMED], ids=["unknown", "invalid", "malformed"])
async def test_with_always_the_first_retry_of_an_invalid_call_is_constrained(stream: bool, first: Said) -> None:
    answer = await chat([first, AS_JSON], ASK, stream=stream, policy=ALWAYS)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert constrained(answer) == [False, True]


async def test_with_never_no_retry_of_an_invalid_call_is_constrained() -> None:
    answer = await chat([UNKNOWN] * 4, ASK, policy=GuardPolicy(constrain_retries="never"))

    assert constrained(answer) == [False] * 4
    assert answer.outcome == "exhausted"


async def test_a_retry_of_plain_text_is_not_constrained() -> None:
    answer = await chat([Said(text="Hm."), RIGHT], ASK, policy=GuardPolicy(constrain_retries="always", max_retries=1))

    assert constrained(answer) == [False, False]


async def test_a_client_whose_text_has_a_format_of_its_own_keeps_it() -> None:
    own = {"type": "json_object"}

    answer = await chat([UNKNOWN, RIGHT], {**ASK, "response_format": own}, policy=ALWAYS)

    assert [asked["response_format"] for asked in answer.asked] == [own, own]


@pytest.mark.parametrize("off", ["respond", "rescue"])
async def test_without_respond_or_rescue_the_model_would_lose_its_way_to_answer(off: str) -> None:
    answer = await chat([UNKNOWN, RIGHT], ASK, policy=GuardPolicy(constrain_retries="always", enabled=without(off)))

    assert constrained(answer) == [False, False]


@both
async def test_reasoning_before_the_constrained_call_stays_reasoning(stream: bool) -> None:
    said = Said(reasoning="The city is Paris.", text=AS_JSON.text)

    answer = await chat([UNKNOWN, said], ASK, stream=stream, policy=ALWAYS)

    assert (answer.reasoning, answer.calls) == ("The city is Paris.", [("get_weather", PARIS)])


@pytest.mark.parametrize("status", [400, 422, 500, 501])
async def test_a_server_that_refuses_the_schema_gets_a_required_call_instead(status: int) -> None:
    refusal = Said(status=status, body={"error": {"message": "no response_format here"}})

    answer = await chat([UNKNOWN, refusal, RIGHT], ASK, policy=ALWAYS)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert [asked.get("tool_choice") for asked in answer.asked] == [None, "none", "required"]
    assert "response_format" not in answer.asked[2]
    assert [tool["function"]["name"] for tool in answer.asked[2]["tools"]] == ["get_weather", "respond"]


async def test_a_server_that_rejects_both_constraints_receives_neither() -> None:
    answer = await chat([UNKNOWN, REFUSAL, REFUSAL, RIGHT], ASK, policy=ALWAYS)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert constrained(answer) == [False, True, True, False]


def without(name: str) -> Switches:
    """All guardrails but one."""
    return Switches.model_validate({name: False})


TWO: JsonDict = {**ASK, "tools": [WEATHER, {"type": "function", "function": {"name": "send_email"}}]}


async def test_of_allowed_tools_only_those_are_in_the_schema() -> None:
    only = {"type": "function", "function": {"name": "get_weather"}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [only]}}

    answer = await chat([UNKNOWN, AS_JSON], {**TWO, "tool_choice": choice}, policy=ALWAYS)

    schema = answer.asked[1]["response_format"]["json_schema"]["schema"]
    assert [tool["properties"]["name"]["const"] for tool in schema["anyOf"]] == ["get_weather", "respond"]
    assert answer.calls == [("get_weather", PARIS)]
