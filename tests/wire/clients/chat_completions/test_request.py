"""Request bodies: known fields are decoded, an invalid field is named by its path, everything else is forwarded."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ChatRequest, ModelCall, ResolvedModel, ToolChoice, ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.wire.backends.openai.request import encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.folding import folded
from tests.properties import OBJECTS, VALUES, examples

Body = dict[str, Any]

USER: Body = {"role": "user", "content": "Hi."}
SEARCH: Body = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
NOTE: Body = {"type": "function", "function": {"name": "note", "description": "notes"}}
ASK: Body = {"model": "m", "messages": [USER], "tools": [SEARCH, NOTE]}


def request_or_refusal(body: Body) -> ChatRequest | InvalidRequest:
    try:
        return decode_request(body)
    except InvalidRequest as refused:
        return refused


def named(name: str) -> Body:
    return {"type": "function", "function": {"name": name}}


def test_a_whole_request_is_read() -> None:
    body: Body = {
        **ASK,
        "tool_choice": named("note"),
        "parallel_tool_calls": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "n": 2,
        "max_tokens": 50,
        "max_completion_tokens": 40,
    }

    assert decode_request(body) == ChatRequest(
        body=body,
        messages=(USER,),
        model="m",
        tools=(ToolSpec("search", {"type": "object"}), ToolSpec("note", True, "notes")),
        tool_choice=ToolChoice("required", ("note",)),
        parallel=False,
        stream=True,
        include_usage=True,
        choices=2,
        limit=40,
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": None, "tools": None, "tool_choice": None, "parallel_tool_calls": None, "stream": None},
        {"stream_options": None, "n": None, "max_tokens": None, "max_completion_tokens": None},
        {"stream_options": {"include_usage": None}, "tools": []},
    ],
)
def test_what_is_missing_or_null_has_its_default(fields: Body) -> None:
    body: Body = {"messages": [USER], **fields}

    assert decode_request(body) == ChatRequest(body, (USER,))


BAD: list[tuple[Body, str, str]] = [
    ({"messages": ...}, "messages", "required, but missing"),
    ({"messages": None}, "messages", "expected at least one message"),
    ({"messages": []}, "messages", "expected at least one message"),
    ({"messages": "Hi."}, "messages", "expected a list, got string"),
    ({"messages": {}}, "messages", "expected a list, got object"),
    ({"messages": [USER, "Hi."]}, "messages[1]", "expected an object, got string"),
    ({"messages": [USER, None]}, "messages[1]", "expected an object, got null"),
    ({"messages": [{"content": "Hi."}]}, "messages[0].role", "required, but missing"),
    ({"messages": [{"role": None}]}, "messages[0].role", "expected a string, got null"),
    ({"messages": [{"role": ""}]}, "messages[0].role", "must not be empty"),
    (
        {"messages": [USER, {**USER, "role": "usr"}]},
        "messages[1].role",
        "developer, system, user, assistant, tool, func",
    ),
    ({"messages": [{"role": "x" * 9000}]}, "messages[0].role", f"got '{'x' * 40}'"),
    ({"messages": [{"role": "User", "content": []}]}, "messages[0].role", "expected one of"),
    ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role", "expected a string, got array"),
    ({"n": 129}, "n", "expected at most 128, got 129"),
    ({"n": 1_000_000_000}, "n", "expected at most 128, got 1000000000"),
    ({"n": 1e300}, "n", "expected at most 128"),
    ({"tools": [SEARCH, named("x" * 257)]}, "tools[1].function.name", "expected at most 256 characters, got 257"),
    ({"tools": [SEARCH] * 513}, "tools", "expected at most 512 tools, got 513"),
    ({"tools": [{"type": "custom"}] * 513}, "tools", "expected at most 512 tools, got 513"),
    ({"messages": [USER] * 3 + [{**USER, "content": 7}]}, "messages[3].content", "expected text, a list of parts"),
    ({"messages": [{**USER, "content": {}}]}, "messages[0].content", "got object"),
    ({"messages": [{**USER, "content": ["Hi.", 7]}]}, "messages[0].content[1]", "expected a content part, got integer"),
    ({"messages": [{**USER, "content": [None]}]}, "messages[0].content[0]", "expected a content part, got null"),
    ({"messages": [{**USER, "tool_calls": {}}]}, "messages[0].tool_calls", "expected a list, got object"),
    ({"messages": [{**USER, "tool_calls": [7]}]}, "messages[0].tool_calls[0]", "expected an object, got integer"),
    ({"model": 7}, "model", "expected a string, got integer"),
    ({"tools": {}}, "tools", "expected a list, got object"),
    ({"tools": [SEARCH, "note"]}, "tools[1]", "expected an object, got string"),
    ({"tools": [{}]}, "tools[0].type", "required, but missing"),
    ({"tools": [{"type": 7}]}, "tools[0].type", "expected a string, got integer"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "required, but missing"),
    ({"tools": [{"type": "function", "function": None}]}, "tools[0].function", "expected an object, got null"),
    ({"tools": [SEARCH, {"type": "function", "function": {}}]}, "tools[1].function.name", "required, but missing"),
    ({"tools": [named("")]}, "tools[0].function.name", "must not be empty"),
    ({"tools": [{"type": "function", "function": {"name": 7}}]}, "tools[0].function.name", "expected a string"),
    (
        {"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]},
        "tools[0].function.parameters",
        "expected a JSON Schema, got array",
    ),
    ({"tool_choice": "maybe"}, "tool_choice", "expected none, auto, required"),
    ({"tool_choice": 7}, "tool_choice", "expected none, auto, required"),
    ({"tool_choice": {}}, "tool_choice", "expected none, auto, required"),
    ({"tool_choice": {"type": "function", "function": {}}}, "tool_choice", "expected none, auto, required"),
    ({"tool_choice": named("serch")}, "tool_choice", "no tool 'serch' in tools; there is note, search"),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": []}}},
        "tool_choice",
        "expected none, auto, required",
    ),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        "tool_choice.allowed_tools.tools",
        "expected at least one tool",
    ),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("note"), "x"]}}},
        "tool_choice.allowed_tools.tools[1]",
        "expected {type: function",
    ),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("serch")]}}},
        "tool_choice",
        "no tool 'serch'",
    ),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls", "expected true or false, got string"),
    ({"stream": 1}, "stream", "expected true or false, got integer"),
    ({"stream_options": True}, "stream_options", "expected an object, got boolean"),
    ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage", "expected true or false"),
    ({"n": 0}, "n", "expected at least 1, got 0"),
    ({"n": True}, "n", "expected an integer, got boolean"),
    ({"n": 1.5}, "n", "expected an integer, got number"),
    ({"n": "2"}, "n", "expected an integer, got string"),
    ({"max_tokens": -2}, "max_tokens", "expected at least -1, got -2"),
    ({"max_completion_tokens": "many"}, "max_completion_tokens", "expected an integer, got string"),
]


@folded
@pytest.mark.parametrize(("fields", "at", "why"), BAD, ids=[f"{at}: {why}" for _, at, why in BAD])
def test_a_bad_field_is_named_by_its_path(fields: Body, at: str, why: str) -> None:
    body = {key: value for key, value in {**ASK, **fields}.items() if value is not ...}

    with pytest.raises(InvalidRequest) as refused:
        decode_request(body)

    assert refused.value.at == at
    assert why in refused.value.why


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ("any", ToolChoice("required")),
        (named("note"), ToolChoice("required", ("note",))),
        ({"type": "function", "name": "note"}, ToolChoice("required", ("note",))),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("note"), named("search")]}},
            ToolChoice("auto", ("note", "search")),
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "name": "note"}]},
            },
            ToolChoice("required", ("note",)),
        ),
    ],
)
def test_each_form_of_a_choice_is_read(said: Json, choice: ToolChoice) -> None:
    assert decode_request({**ASK, "tool_choice": said}).tool_choice == choice


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 3}, 3),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": 5.0}, 5),
        ({"max_tokens": -1}, None),
        ({"max_tokens": -1, "max_completion_tokens": 9}, 9),
    ],
)
def test_the_smaller_limit_counts_and_minus_one_is_none(limits: Body, limit: int | None) -> None:
    assert decode_request({**ASK, **limits}).limit == limit


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": ""},
        {"role": "developer", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "", "function": {"arguments": 7}}]},
        {"role": "assistant", "tool_calls": None},
        {"role": "tool", "content": [{"type": "text", "text": "x"}], "tool_call_id": None},
        {"role": "function", "name": "f", "content": "x"},
        {"role": "ipython", "content": "x"},
        {"role": "user", "content": ["x", {"type": "image_url", "image_url": {"url": "data:"}}]},
        {"role": "user", "content": []},
    ],
)
def test_what_clients_really_send_is_read(message: Body) -> None:
    assert decode_request({"messages": [message]}).messages == (message,)


@pytest.mark.parametrize(
    "function",
    [
        {"name": "a"},
        {"name": "a", "parameters": None, "description": None, "strict": True},
        {"name": "a", "parameters": True},
    ],
)
def test_a_tool_without_a_schema_takes_anything(function: Body) -> None:
    assert decode_request({**ASK, "tools": [{"type": "function", "function": function}]}).tools == (ToolSpec("a"),)


def test_a_custom_tool_can_be_chosen_if_one_is_offered() -> None:
    offered = {"type": "custom", "custom": {"name": "x"}}

    request = decode_request({**ASK, "tools": [SEARCH, offered], "tool_choice": offered})

    assert (request.tools, request.tool_choice) == ((), ToolChoice("none"))


def test_with_a_tool_of_another_kind_no_tool_is_guarded() -> None:
    request = decode_request({**ASK, "tools": [SEARCH, {"type": "web_search"}], "tool_choice": named("search")})

    assert request.tools == ()


@examples(150)
@given(other=OBJECTS, message=OBJECTS, tool=OBJECTS)
def test_an_unguarded_request_is_forwarded_unchanged(
    other: dict[str, Json], message: dict[str, Json], tool: dict[str, Json]
) -> None:
    other, message, tool = ({f"x_{key}": value for key, value in fields.items()} for fields in (other, message, tool))
    body: Body = {**other, **ASK, "messages": [{**message, **USER}], "tools": [{**tool, **SEARCH}], "stream": True}
    before = copy.deepcopy(body)

    request = decode_request(body)

    assert encode_call(ModelCall(request, stream=True)) == before
    assert list(encode_call(ModelCall(request, stream=True))) == list(before)
    assert body == before


@examples(300)
@given(key=st.sampled_from([*ASK, "tool_choice", "stream", "stream_options", "n", "max_tokens", "x"]), value=VALUES)
def test_any_value_is_read_or_refused_by_its_field(key: str, value: Json) -> None:
    body: Body = {**ASK, key: value}

    read = request_or_refusal(body)

    if isinstance(read, InvalidRequest):
        assert read.at.startswith(key)
        assert key != "x"
    else:
        assert read.body == body


def test_additions_come_last_and_nothing_before_them_changes() -> None:
    request = decode_request({**ASK, "seed": 7})
    call = ToolCall("search", '{"q": 1}', "c1")
    added = (
        Message.of(MessageType.TOOL_CALL, "", calls=(call,)),
        Message.of(MessageType.RETRY_NUDGE, "no such tool", answers=ToolCall("", id="c1")),
        Message.of(MessageType.RETRY_NUDGE, "call it"),
    )
    respond = ToolSpec("respond", {"type": "object"}, "answer the user")
    model = ResolvedModel(request.model, "served")

    body = encode_call(ModelCall(request, stream=False, respond=respond, added=added, resolved=model))

    assert body == {
        **ASK,
        "seed": 7,
        "model": "served",
        "tools": [
            SEARCH,
            NOTE,
            {
                "type": "function",
                "function": {"name": "respond", "description": "answer the user", "parameters": {"type": "object"}},
            },
        ],
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}
                ],
            },
            {"role": "tool", "content": "no such tool", "tool_call_id": "c1"},
            {"role": "user", "content": "call it"},
        ],
    }
    assert request.body == {**ASK, "seed": 7}


@pytest.mark.parametrize(
    ("asked", "call", "sent"),
    [
        ({}, {"stream": False}, {}),
        ({}, {"stream": True}, {"stream": True}),
        ({}, {"stream": True, "usage": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({}, {"stream": False, "usage": True}, {}),
        ({"stream": True}, {"stream": True}, {"stream": True}),
        (
            {"stream": True, "stream_options": {"x": 1, "include_usage": False}},
            {"stream": True, "usage": True},
            {"stream": True, "stream_options": {"x": 1, "include_usage": True}},
        ),
        ({"stream": True, "stream_options": {"x": 1}}, {"stream": False, "usage": True}, {"stream": False}),
    ],
)
def test_the_daemon_decides_how_the_backend_streams(asked: Body, call: dict[str, bool], sent: Body) -> None:
    request = decode_request({**ASK, **asked})

    assert encode_call(ModelCall(request, **call)) == {**ASK, **sent}  # pyright: ignore[reportArgumentType]
