"""The request to a backend: the client's own, with the changes that the backend's dialect and window require."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import jsonschema_rs
import orjson
import pytest

from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.guardrails.respond import respond_tool
from forge_proxy.core.messages import Message, MessageType
from forge_proxy.wire.backends.openai.request import encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request

Body = dict[str, Any]

HISTORY: list[Body] = [
    {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "data:"}}],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read-file", "arguments": '{"path":"a"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}]},
    {"role": "assistant", "content": "Done.", "reasoning_content": "hm", "tool_calls": None, "refusal": None},
    {"role": "user", "content": "Thanks."},
]
TOOLS: list[Body] = [
    {
        "type": "function",
        "function": {
            "name": "read-file",
            "description": "d",
            "strict": False,
            "parameters": {
                "type": "object",
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "properties": {"path": {"type": "string", "minLength": 1}},
                "required": ["path"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "mcp.list/all", "description": None}},
]
# The shapes that harnesses send: field order, unknown fields and parts differ from one to the other.
CLIENTS: dict[str, Body] = {
    "opencode": {
        "model": "m",
        "max_tokens": 32000,
        "messages": HISTORY,
        "tools": TOOLS,
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "qwen": {
        "model": "m",
        "messages": HISTORY,
        "max_tokens": 8000,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": TOOLS,
    },
    "aider": {
        "messages": [
            {"role": "system", "content": "s"},
            *({"role": role, "content": "x"} for role in ("user", "assistant", "user", "user")),
        ],
        "model": "m",
        "stream": True,
        "temperature": 0,
    },
    "openai": {
        "model": "m",
        "messages": HISTORY,
        "tools": TOOLS,
        "logprobs": True,
        "n": 2,
        "seed": 1,
        "stop": ["x"],
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
    },
    "node": {
        "model": "m",
        "messages": HISTORY,
        "tools": TOOLS,
        "stream_options": {"include_usage": True},
        "stream": False,
    },
    "pydantic-ai": {"model": "m", "stream": False, "messages": HISTORY, "tool_choice": "required", "tools": TOOLS},
}


@pytest.mark.parametrize("body", CLIENTS.values(), ids=CLIENTS.keys())
def test_the_clients_request_is_forwarded_unchanged(body: Body) -> None:
    before = copy.deepcopy(body)
    request = decode_request(body)

    sent = encode_call(ModelCall(request, stream=request.stream))

    assert sent == before
    assert list(sent) == list(before)
    assert all(new is old for new, old in zip(sent["messages"], body["messages"], strict=True))  # pyright: ignore[reportArgumentType]
    assert body == before


@pytest.mark.parametrize(
    ("limits", "room", "sent"),
    [
        ({"max_tokens": 9000}, 700, {"max_tokens": 700}),
        ({"max_tokens": 9000, "max_completion_tokens": 300}, 700, {"max_tokens": 700, "max_completion_tokens": 300}),
        ({"max_completion_tokens": 9000}, 0, {}),
        ({"max_tokens": 300}, 700, {"max_tokens": 300}),
        ({"max_tokens": None}, 700, {"max_tokens": None}),
        ({"max_tokens": -1}, 0, {"max_tokens": -1}),
        ({}, 700, {}),
    ],
)
def test_a_limit_is_lowered_to_the_room_there_is(limits: Body, room: int, sent: Body) -> None:
    body: Body = {"messages": HISTORY, **limits}

    assert encode_call(ModelCall(decode_request(body), stream=False, room=room)) == {"messages": HISTORY, **sent}


def test_simplified_schemas_are_sent_if_needed() -> None:
    body: Body = {"messages": HISTORY, "tools": [*TOOLS, {"type": "custom", "custom": {"name": "c"}}]}
    before = copy.deepcopy(body)

    sent = encode_call(ModelCall(decode_request(body), stream=False, dialect=Dialect(plain_schemas=True)))

    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "read-file", "description": "d", "parameters": path}},
        {"type": "function", "function": {"name": "mcp.list/all", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "c"}},
    ]
    assert body == before


def test_reasoning_and_roles_are_encoded_in_the_dialect() -> None:
    body: Body = {"messages": [*HISTORY, {"role": "developer", "content": "d"}]}
    dialect = Dialect(reasoning="none", developer=False)

    sent: Any = encode_call(ModelCall(decode_request(body), stream=False, dialect=dialect))["messages"]

    assert sent[4] == {"role": "assistant", "content": "Done.", "tool_calls": None, "refusal": None}
    assert sent[6] == {"role": "system", "content": "d"}
    assert sent[:4] == HISTORY[:4]


def asking(messages: list[Body], **fields: Any) -> ChatRequest:
    body: Body = {"messages": messages, **fields}
    return decode_request(body)


def test_each_turn_begins_with_the_bytes_of_the_turn_before_it() -> None:
    respond = respond_tool(["read-file"])
    said = Message.of(MessageType.TEXT_RESPONSE, "Hm.")
    nudge = Message.of(MessageType.RETRY_NUDGE, "No.")

    def sent(messages: list[Body], *added: Message) -> bytes:
        """What the prompt is made of, in its order: the tools, then the messages."""
        request = asking(messages, tools=TOOLS)
        body = encode_call(ModelCall(request, stream=True, respond=respond, added=added))
        return orjson.dumps([body["tools"], body["messages"]]).removesuffix(b"]]")

    turns = [sent(HISTORY[:end]) for end in range(1, len(HISTORY) + 1)]
    nudged = sent(HISTORY[:2], said, nudge)

    assert all(after.startswith(before) for before, after in pairwise(turns))
    assert nudged.startswith(turns[1])
    assert turns[2].startswith(turns[1])  # and the correction is not in the turn after it


NAMED: Body = {"type": "function", "function": {"name": "read-file"}}
ALLOWED: Body = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}


@pytest.mark.parametrize(("said", "word"), [(NAMED, "required"), (ALLOWED, "auto"), ("none", "none"), ("any", "any")])
def test_tool_choice_is_a_string_if_the_server_accepts_no_object(said: Any, word: str) -> None:
    request = asking(HISTORY, tools=TOOLS, tool_choice=said)

    as_word = encode_call(ModelCall(request, stream=False, dialect=Dialect(choice_in_words=True)))
    as_sent = encode_call(ModelCall(request, stream=False))

    assert as_word == {**request.body, "tool_choice": word}
    assert as_sent == request.body


@pytest.mark.parametrize(("said", "sent"), [({}, True), ({"return_progress": False}, False)])
def test_a_llama_server_is_asked_for_its_progress_in_streams(said: Body, sent: bool) -> None:
    request = asking(HISTORY, stream=True, **said)
    whole = asking(HISTORY)

    body = encode_call(ModelCall(request, stream=True, dialect=Dialect(llama_cpp=True)))

    assert body["return_progress"] is sent
    assert encode_call(ModelCall(whole, stream=True, dialect=Dialect(llama_cpp=True))).get("return_progress") is None
    assert encode_call(ModelCall(request, stream=True)) == request.body


@pytest.mark.parametrize("llama_cpp", [False, True])
def test_a_call_that_is_demanded_is_the_only_text_there_can_be(llama_cpp: bool) -> None:
    request = asking(HISTORY, tools=TOOLS, tool_choice=NAMED)

    call = ModelCall(request, stream=False, required_tools=request.tools[:1], dialect=Dialect(llama_cpp=llama_cpp))
    body: Any = encode_call(call)

    schema = body["response_format"]["json_schema"]["schema"]
    assert jsonschema_rs.is_valid(schema, {"name": "read-file", "arguments": {"path": "a"}})
    assert not jsonschema_rs.is_valid(schema, {"name": "read-file", "arguments": {}})
    assert not jsonschema_rs.is_valid(schema, {"name": "mcp.list/all", "arguments": {}})
    assert (body["tools"], body["messages"], body["tool_choice"]) == (TOOLS, HISTORY, "none")
    assert body.get("reasoning_format") == ("none" if llama_cpp else None)


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ({}, {"cache_prompt": False, "id_slot": 1, "chat_template_kwargs": {"enable_thinking": False}}),
        ({"id_slot": 0, "cache_prompt": True}, {"id_slot": 0, "cache_prompt": True}),
        ({"chat_template_kwargs": {"x": 1}}, {"chat_template_kwargs": {"x": 1, "enable_thinking": False}}),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {"chat_template_kwargs": {"enable_thinking": True}}),
    ],
)
def test_settings_apply_to_fields_that_the_client_omits(said: Body, sent: Body) -> None:
    dialect = Dialect(llama_cpp=True, defaults={"cache_prompt": False, "id_slot": 1}, thinks=False)

    body = encode_call(ModelCall(asking([{"role": "user", "content": "hi"}], **said), stream=False, dialect=dialect))

    assert body.items() >= sent.items()


def test_reasoning_fields_of_the_client_take_precedence() -> None:
    dialect = Dialect(llama_cpp=True, thinks=True)

    body = encode_call(
        ModelCall(asking([{"role": "user", "content": "hi"}], reasoning_effort="none"), stream=False, dialect=dialect)
    )

    assert "chat_template_kwargs" not in body
