"""What is nested too deeply in a response is a fault of the model: retried, then a 502, never a 500 or a 400. In a
request it is a 400.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from forge_proxy.core.chat import ModelCall
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.jsontypes import MAX_NESTING, is_nested_too_deeply
from forge_proxy.wire.backends.ollama.request import OllamaRequestOptions, encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import ASK, PARIS, RIGHT, WEATHER
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, chat
from tests.properties import sample

FREE: JsonDict = {"type": "function", "function": {"name": "free", "parameters": {"type": "object"}}}
BODY: JsonDict = {**ASK, "tools": [WEATHER, FREE]}
DEPTHS = (MAX_NESTING + 1, 260, 900, 1_100, 10_000)
WAYS = {"whole": False, "streamed": True}
both = pytest.mark.parametrize("stream", WAYS.values(), ids=WAYS)


def nested(depth: int, kind: str) -> str:
    return "[" * depth + "]" * depth if kind == "lists" else '{"a":' * depth + "1" + "}" * depth


def said(form: str, deep: str) -> Said:
    match form:
        case "any arguments":
            return Said(calls=(("free", f'{{"x": {deep}}}'),))
        case "beside a value that is mended":
            return Said(calls=(("get_weather", f'{{"city": "P", "days": "3", "x": {deep}}}'),))
        case "in place of a text":
            return Said(calls=(("get_weather", f'{{"city": {deep}, "days": 3}}'),))
        case "with an escape":
            return Said(calls=(("free", f'{{"x": {deep}, "y": "\\u00e9"}}'),))
        case _:
            return Said(calls=(("nonsense", f'{{"x": {deep}}}'),))


FORMS = ("any arguments", "beside a value that is mended", "in place of a text", "with an escape", "of an unknown tool")


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "depth", "kind", "stream"), sample([*product(FORMS, DEPTHS, ("lists", "objects"), WAYS.values())], 7)
)
async def test_arguments_nested_too_deeply_are_retried(form: str, depth: int, kind: str, stream: bool) -> None:
    answer = await chat([said(form, nested(depth, kind)), RIGHT], BODY, stream=stream)

    assert (answer.status, answer.calls, answer.attempts) == (200, [("get_weather", PARIS)], 2)
    assert len(json.dumps(answer.asked[1])) < len(json.dumps(answer.asked[0])) + 3_000


@pytest.mark.long
@pytest.mark.parametrize(("form", "depth", "exhausted"), sample([*product(FORMS, DEPTHS, ("deliver", "error"))], 7))
async def test_arguments_that_remain_nested_too_deeply_are_a_502(form: str, depth: int, exhausted: str) -> None:
    policy = GuardPolicy.model_validate({"on_exhausted": exhausted})

    answer = await chat([said(form, nested(depth, "lists"))] * 4, BODY, policy=policy)

    assert (answer.status, answer.error and answer.error["code"]) == (502, "tool_call_invalid")
    assert len(answer.asked) == 4


@both
async def test_arguments_that_are_nested_less_deeply_arrive_as_they_are(stream: bool) -> None:
    deep = f'{{"x": {nested(MAX_NESTING - 1, "lists")}}}'

    answer = await chat([Said(calls=(("free", deep),))], BODY, stream=stream)

    assert (answer.calls, answer.outcome) == ([("free", json.loads(deep))], "clean")


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * 201, True),
        ("[" * 200 + "]" * 200, False),
        ("[]" * 5_000, False),
        (json.dumps({"code": "[" * 5_000}), False),
        (json.dumps({"code": '"\\' + "[{" * 500}), False),
        ('"' + '\\"[' * 50_000, False),
    ],
)
def test_only_levels_outside_of_texts_count(text: str, deep: bool) -> None:
    assert is_nested_too_deeply(text) is deep


def annotated(depth: int) -> Said:
    """A text with a field that is nested so deeply."""
    delta = {"role": "assistant", "content": "hi", "annotations": json.loads(nested(depth, "lists"))}
    return Said(events=[{"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}])


@both
async def test_a_response_nested_too_deeply_is_retried(stream: bool) -> None:
    answer = await chat([annotated(300), RIGHT], BODY, stream=stream)

    assert (answer.status, answer.calls, answer.attempts) == (200, [("get_weather", PARIS)], 2)


@both
@pytest.mark.parametrize("depth", [260, 900])
async def test_a_response_that_remains_nested_too_deeply_is_a_502(stream: bool, depth: int) -> None:
    answer = await chat([annotated(depth)] * 8, BODY, stream=stream)

    assert (answer.status, answer.error and answer.error["code"]) == (502, "response_too_deep")


async def test_a_response_that_passes_through_has_no_nesting_limit() -> None:
    answer = await chat([annotated(900)], {**BODY, "model": "scripted", "tools": []}, stream=True)

    assert (answer.status, answer.text) == (200, "hi")


async def test_a_request_nested_too_deeply_is_a_400() -> None:
    answer = await chat([], {**BODY, "metadata": json.loads(nested(400, "lists"))})

    assert (answer.status, answer.error and answer.error["type"]) == (400, "invalid_request_error")


async def test_ollama_gets_arguments_nested_too_deeply_as_text() -> None:
    arguments = json.dumps({"a": json.loads(nested(600, "lists"))})
    call = {"id": "c", "type": "function", "function": {"name": "free", "arguments": arguments}}
    messages: list[Any] = [
        *BODY["messages"],
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c"},
    ]
    request = decode_request({**BODY, "messages": messages})

    body = encode_call(ModelCall(request, stream=True), OllamaRequestOptions(), None)

    message = json.loads(json.dumps(body))["messages"][len(BODY["messages"])]
    assert message["tool_calls"][0]["function"]["arguments"] == {"_raw": arguments}
