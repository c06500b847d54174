"""Events in Anthropic's dialect to chunks, whatever way they are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Completion, CompletionBuilder
from forge_proxy.wire.backends.anthropic.errors import find_status
from forge_proxy.wire.backends.anthropic.stream import MessageReader
from forge_proxy.wire.backends.anthropic.tools import ToolNames

JsonDict = dict[str, Any]


def read(*events: JsonDict, names: tuple[str, ...] = (), model: str | None = None) -> Completion:
    reader = MessageReader(ToolNames(names), model)
    builder = CompletionBuilder()
    for event in events:
        for chunk in reader.feed(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()):
            builder.add(chunk)
    assert reader.fault is None
    return builder.completion()


def start(**usage: int) -> JsonDict:
    return {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "usage": usage}}


def stop(reason: str, details: Any = None, **usage: Any) -> JsonDict:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_details": details}, "usage": usage}


def block(index: int, block: JsonDict, *deltas: JsonDict) -> list[JsonDict]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
    ],
)
def test_each_stop_reason_is_a_finish_reason(reason: str, finish: str) -> None:
    assert read(start(), stop(reason)).replies[0].finish == finish


def test_usage_includes_what_was_cached_and_tells_it_apart() -> None:
    told = stop("end_turn", output_tokens=50, output_tokens_details={"thinking_tokens": 30}, input_tokens=10)
    got = read(
        start(input_tokens=10, output_tokens=1, cache_read_input_tokens=200, cache_creation_input_tokens=5), told
    )

    assert got.usage == {
        "prompt_tokens": 215,
        "completion_tokens": 50,
        "total_tokens": 265,
        "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    assert read(start(), stop("end_turn")).usage is None


def test_reasoning_has_the_signature_for_sending_it_back() -> None:
    got = read(
        start(),
        *block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "m"},
            {"type": "signature_delta", "signature": "si"},
            {"type": "signature_delta", "signature": "gn"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "x"}),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "a"}),
        stop("end_turn"),
    )

    reply = got.replies[0]
    assert (reply.reasoning, reply.text) == ("hm", "a")
    assert reply.extra["thinking_blocks"] == [
        {"index": 0, "type": "thinking", "thinking": "hm", "signature": "sign"},
        {"index": 1, "type": "redacted_thinking", "data": "x"},
    ]


def test_calls_have_the_clients_tool_names_and_separate_indexes() -> None:
    got = read(
        start(),
        *block(0, {"type": "text", "text": "so"}),
        *block(
            1,
            {"type": "tool_use", "id": "t1", "name": "mcp_a", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"x": '},
            {"type": "input_json_delta", "partial_json": "1}"},
        ),
        *block(2, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        *block(3, {"type": "tool_use", "id": "t2", "name": "b", "input": {"y": 2}}),
        *block(4, {"type": "tool_use", "id": "t3", "name": "b", "input": {}}),
        stop("tool_use"),
        names=("mcp.a", "b"),
    )

    assert got.replies[0].calls == (
        ToolCall("mcp.a", '{"x": 1}', "t1"),
        ToolCall("b", '{"y":2}', "t2"),
        ToolCall("b", "{}", "t3"),
    )
    assert got.replies[0].text == "so"


def test_a_refusal_has_its_reason() -> None:
    got = read(start(), stop("refusal", {"type": "refusal", "explanation": "not this"}))

    assert got.replies[0].extra["refusal"] == "not this"


def test_the_response_has_the_requested_model_name() -> None:
    assert read(start(), stop("end_turn"), model="mine").head == {"id": "msg_1", "model": "mine"}


@pytest.mark.parametrize(
    ("kind", "status"),
    [("invalid_request_error", 400), ("rate_limit_error", 429), ("overloaded_error", 529), ("new_error", 502)],
)
def test_an_error_in_a_stream_has_the_status_of_its_type(kind: str, status: int) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "m"}}
    reader = MessageReader(ToolNames(()))
    assert reader.feed(f"event: error\ndata: {json.dumps(event)}\n\n".encode()) == []

    error = getattr(reader.fault, "error", None)
    assert find_status(error) == status
