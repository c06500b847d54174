"""Histories as clients send them back: broken parts are repaired deterministically, and the rest is not changed."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json
from forge_proxy.wire.message_repair import RAW, repair_messages
from tests.properties import OBJECTS, TEXTS, VALUES, examples

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "Hi."}
BROKEN = '{"path": "a.py", "content": "def f('


def calling(*arguments: Any, **fields: Any) -> Message:
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "search", "arguments": said}, **fields}
        for n, said in enumerate(arguments)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(identity: Any = "call_0", **fields: Any) -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": "found", **fields}


def arguments_of(message: Any) -> Any:
    return message["tool_calls"][0]["function"]["arguments"]


IN_ORDER: list[Message] = [
    {"role": "system", "content": "s", "name": "n"},
    {"role": "developer", "content": [{"type": "text", "text": "d"}]},
    {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:"}}]},
    {"role": "assistant", "content": None, "reasoning_content": "hm", "provider_specific_fields": {"a": 1}},
    calling('{"q": 1}', '{"q":1, "s": "\\u00e9"}', " {}\n"),
    result("call_1", content=[{"type": "text", "text": "found"}]),
    result("call_0", content=None),
    result("call_2"),
    {"role": "assistant", "content": "done", "tool_calls": None},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{"}},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "ipython", "content": "x"},
    result("call_0"),
    USER,
]


def test_a_history_in_order_is_the_same_objects() -> None:
    before = copy.deepcopy(IN_ORDER)

    out = repair_messages(IN_ORDER)

    assert all(new is old for new, old in zip(out, IN_ORDER, strict=True))
    assert before == IN_ORDER


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("{'city': 'Bonn',}", '{"city": "Bonn"}'),
        ('{"a": "line\nbreak"}', '{"a": "line\\nbreak"}'),
        ('{"a":1}}', '{"a":1}'),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ("", "{}"),
        (" ", "{}"),
        ("null", "{}"),
        (None, "{}"),
        ({"a": {"b": [1]}}, '{"a":{"b":[1]}}'),
        ([1], f'{{"{RAW}":[1]}}'),
        ("[1]", f'{{"{RAW}":"[1]"}}'),
        ("3", f'{{"{RAW}":"3"}}'),
        ("city=Bonn", f'{{"{RAW}":"city=Bonn"}}'),
        (BROKEN, orjson.dumps({RAW: BROKEN}).decode()),
        ('{"a": "\\ud800"}', '{"a": "\\\\ud800"}'),
        ("{" * 100_000, f'{{"{RAW}":"{"{" * 100_000}"}}'),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_arguments_become_the_text_of_an_object(said: Any, sent: str) -> None:
    assert arguments_of(repair_messages([USER, calling(said), result()])[1]) == sent


def test_only_the_broken_message_is_replaced() -> None:
    messages = [USER, calling("{}"), result(), calling("{}", "oops"), result(), result("call_1")]
    before = copy.deepcopy(messages)

    out = repair_messages(messages)

    assert messages == before
    assert [new is old for new, old in zip(out, messages, strict=True)] == [True, True, True, False, True, True]
    assert out[3] == {
        **messages[3],
        "tool_calls": [
            messages[3]["tool_calls"][0],
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "search", "arguments": f'{{"{RAW}":"oops"}}'},
            },
        ],
    }


@pytest.mark.parametrize("nothing", ["", None, ...], ids=["empty", "null", "missing"])
def test_calls_and_results_without_ids_are_paired_in_order(nothing: Any) -> None:
    fields = {} if nothing is ... else {"id": nothing}
    calls: list[Any] = [
        {key: value for key, value in {**call, **fields}.items() if key != "id" or fields}
        for call in calling("{}", "{}")["tool_calls"]
    ]
    results: list[Any] = [result(nothing, content="a"), result(nothing, content="b")]
    if nothing is ...:
        results = [{key: value for key, value in one.items() if key != "tool_call_id"} for one in results]

    out: list[Any] = repair_messages([USER, {"role": "assistant", "tool_calls": calls}, *results])
    _, assistant, first, second = out

    ids = [call["id"] for call in assistant["tool_calls"]]
    assert [len(identity) for identity in ids] == [9, 9]
    assert all(identity.isalnum() for identity in ids)
    assert ids[0] != ids[1]
    assert (first, second) == (
        {"role": "tool", "tool_call_id": ids[0], "content": "a"},
        {"role": "tool", "tool_call_id": ids[1], "content": "b"},
    )


@pytest.mark.parametrize(
    ("named", "paired"),
    [
        (["other", "call_1"], ["call_0", "call_1"]),
        (["other", "call_0"], ["call_1", "call_0"]),
        (["call_1", None], ["call_1", "call_0"]),
        (["call_0", "call_1", "other"], ["call_0", "call_1", "other"]),
        (["call_0", "call_1", None], ["call_0", "call_1", ""]),
        (["call_1"], ["call_1"]),
    ],
)
def test_a_result_without_a_call_gets_the_remaining_call(named: list[Any], paired: list[str]) -> None:
    out: list[Any] = repair_messages([USER, calling("{}", "{}"), *map(result, named)])

    assert [message["tool_call_id"] for message in out[2:]] == paired


def test_a_late_result_keeps_the_id_of_an_earlier_call() -> None:
    second: Message = {**calling("{}"), "tool_calls": [{**calling("{}")["tool_calls"][0], "id": "other"}]}
    messages: list[Any] = [USER, calling("{}"), USER, second, result("call_0"), result("other")]

    assert repair_messages(messages) == messages


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        ({"role": "assistant"}, {"role": "assistant", "content": ""}),
        ({"role": "assistant", "tool_calls": []}, None),
        ({"role": "assistant", "audio": {"id": "a"}}, None),
        ({"role": "tool", "tool_call_id": ""}, {"role": "tool", "tool_call_id": "", "content": ""}),
    ],
)
def test_fields_that_a_serialiser_omits_are_restored(message: Message, sent: Message | None) -> None:
    assert repair_messages([USER, message])[1] == (sent or message)


def test_a_call_without_a_type_is_one_of_a_function() -> None:
    out: Any = repair_messages([USER, calling("{}", type=None), result()])[1]

    assert out["tool_calls"][0]["type"] == "function"


CALLS = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": st.just("f"), "arguments": TEXTS | VALUES})},
    optional={"id": st.sampled_from(["", "a", "b"]) | st.none(), "type": st.none() | st.just("function")},
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.just("assistant")}, optional={"tool_calls": st.lists(CALLS | VALUES) | VALUES})
    | st.fixed_dictionaries({"role": st.just("tool")}, optional={"tool_call_id": st.sampled_from(["", "a", "c"])})
    | OBJECTS
    | VALUES,
    max_size=6,
)


@examples(200)
@given(messages=MESSAGES)
def test_repairs_are_the_same_in_each_turn_and_idempotent(messages: list[Json]) -> None:
    messages = orjson.loads(json.dumps(messages))

    out = repair_messages(messages)

    assert len(out) == len(messages)
    assert repair_messages(out) == out
    assert orjson.dumps(repair_messages(copy.deepcopy(messages))) == orjson.dumps(out)
    # A turn later the beginning is the same, but for results that only now name the call they are of.
    longer = repair_messages([*messages, USER, calling("oops"), result(None)])
    assert longer[: len(out)] == out
