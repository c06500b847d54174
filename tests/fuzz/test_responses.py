"""No request and no response of a model makes the codec of `/v1/responses` fail in another way than it declares."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest
from forge_proxy.wire.clients.responses.request import decode_request
from forge_proxy.wire.clients.responses.stored_items import find_references, number_items
from tests.fakes.response_events import final_response, read_events
from tests.properties import examples

JsonDict = dict[str, Any]
KINDS = [
    "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call",
    "apply_patch_call_output", "tool_search_call", "tool_search_output", "additional_tools", "item_reference",
    "web_search_call", "compaction", "input_text", "output_text", "input_image", "input_file", "input_audio", "refusal",
    "function", "custom", "namespace", "local_shell", "shell", "apply_patch", "tool_search", "grammar", "text",
    "json_schema", "json_object", "allowed_tools", "", "x",
]  # fmt: skip
KEYS = [
    "type", "role", "content", "text", "name", "namespace", "arguments", "input", "output", "call_id", "id", "action",
    "operation", "command", "env", "tools", "parameters", "description", "format", "syntax", "definition", "summary",
    "encrypted_content", "image_url", "file_data", "filename", "environment", "execution", "status", "schema", "mode",
    "effort", "strict", "refusal", "input_audio", "detail", "url",
]  # fmt: skip
FIELDS = [
    "input", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "stream", "store", "metadata",
    "previous_response_id", "conversation", "max_output_tokens", "top_logprobs", "truncation", "parallel_tool_calls",
    "background", "prompt", "temperature", "stream_options", "context_management", "model", "user", "min_p",
]  # fmt: skip
ROLES = ["user", "assistant", "system", "developer", "tool"]
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([*KINDS, *ROLES, "auto", "required", "lark", "forge1.AA==", "forge1.!", '{"a": 1}', "ü\0"])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
)
TYPED = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5).flatmap(
    lambda rest: st.sampled_from(KINDS).map(lambda kind: {**rest, "type": kind})
)
BODIES = st.dictionaries(st.sampled_from(FIELDS), st.lists(TYPED, max_size=4) | VALUES | TYPED, max_size=6)
ANSWER = (
    Chunk((Delta(reasoning="a", text="b"),)),
    Chunk((Delta(calls=(CallDelta(0, "c", "f", '{"a": 1}'),)),)),
    Chunk((Delta(finish="stop"),)),
)


def decode(body: JsonDict) -> tuple[DecodedResponsesRequest | None, str]:
    """The decoded body, or the path of the field for which it is rejected."""
    try:
        return DecodedResponsesRequest(decode_request(body, ())), ""
    except InvalidRequest as error:
        return None, error.at


@examples(400)
@given(body=BODIES)
def test_any_body_is_answered_or_rejected_with_the_name_of_a_field(body: JsonDict) -> None:
    body = orjson.loads(orjson.dumps(body))
    decoded, at = decode(body)
    assert (decoded is None) is bool(at)
    if decoded is None:
        return

    orjson.dumps(decoded.chat.body)
    encoder = decoded.build_stream_encoder("r", 0)
    stream = b"".join(encoder.write(chunk) for chunk in ANSWER) + encoder.finish(Report(Outcome.CLEAN))
    assert stream.count(b"event: response.completed") == 1
    number_items([item for item in body.get("input") or [] if isinstance(item, dict)], "s")
    find_references(body)


TOOLS: list[JsonDict] = [
    {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None},
    {"type": "custom", "name": "c"},
    {"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"}, {"type": "tool_search", "execution": "client"},
]  # fmt: skip
HOSTILE = [
    '{"timeout_ms": 1' + "0" * 40 + "}", '{"query": ' + "[" * 300 + "]" * 300 + "}", '{"command": ["\\ud83d"]}',
    '{"a": NaN}',
]  # fmt: skip
ARGUMENTS = st.text(max_size=10) | VALUES.map(json.dumps) | st.sampled_from(HOSTILE)
CALLS = st.builds(
    CallDelta, index=st.integers(0, 2), id=st.sampled_from(["", "call_1"]),
    name=st.sampled_from(["", "f", "c", "local_shell", "shell", "tool_search", "apply_patch", "nothing"]),
    arguments=ARGUMENTS,
)  # fmt: skip
DELTAS = st.builds(
    Delta,
    text=st.none() | st.text(max_size=5),
    reasoning=st.none() | st.text(max_size=5),
    calls=st.lists(CALLS, max_size=2).map(tuple),
    finish=st.sampled_from([None, None, None, "stop", "length"]),
    extra=st.sampled_from([{}, {"refusal": "no"}, {"refusal": 5}]),
)


@examples(400)
@given(deltas=st.lists(DELTAS, max_size=6))
def test_whatever_a_model_writes_is_a_complete_stream(deltas: list[Delta]) -> None:
    body: JsonDict = {"input": "Hi", "tools": TOOLS}
    encoder = DecodedResponsesRequest(decode_request(body)).build_stream_encoder("r", 0)

    stream = b"".join(encoder.write(Chunk((delta,))) for delta in deltas) + encoder.finish(Report(Outcome.CLEAN))

    names = [line for line in stream.splitlines() if line.startswith(b"event: ")]
    assert names.count(b"event: response.output_item.added") == names.count(b"event: response.output_item.done")
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event["output_index"] for event in events if event["type"] == "response.output_item.done"]
    assert sorted(done) == list(range(len(done)))


def nested_tool(depth: int) -> JsonDict:
    schema: Any = {}
    for _ in range(depth):
        schema = {"items": schema}
    return {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": schema}]}


@pytest.mark.parametrize("depth", [100, 240])
def test_a_deeply_nested_tool_is_repeated_in_the_response(depth: int) -> None:
    body = nested_tool(depth)

    encoder = DecodedResponsesRequest(decode_request(body)).build_stream_encoder("r", 0)
    stream = b"".join(encoder.write(chunk) for chunk in ANSWER) + encoder.finish(Report(Outcome.CLEAN))

    assert final_response(read_events(stream))["tools"] == body["tools"]


def test_a_tool_that_is_nested_too_deeply_to_be_repeated_is_refused_with_the_field() -> None:
    with pytest.raises(InvalidRequest, match="tools: nested too deeply to be repeated in the response"):
        DecodedResponsesRequest(decode_request(nested_tool(400))).build_stream_encoder("r", 0)
