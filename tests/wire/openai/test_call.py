"""What a backend is sent: the caller's own request, with what the backend's dialect and its window ask for."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from forge_proxy.core.chat import ModelCall
from forge_proxy.core.dialect import Dialect
from forge_proxy.wire.openai.call import encode_call
from forge_proxy.wire.openai.request import decode_request

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
def test_what_a_client_sends_goes_on_as_it_came(body: Body) -> None:
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


def test_plain_schemas_are_sent_where_they_are_needed() -> None:
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


def test_thoughts_and_roles_are_written_in_the_dialect() -> None:
    body: Body = {"messages": [*HISTORY, {"role": "developer", "content": "d"}]}
    dialect = Dialect(reasoning="none", developer=False)

    sent: Any = encode_call(ModelCall(decode_request(body), stream=False, dialect=dialect))["messages"]

    assert sent[4] == {"role": "assistant", "content": "Done.", "tool_calls": None, "refusal": None}
    assert sent[6] == {"role": "system", "content": "d"}
    assert sent[:4] == HISTORY[:4]
