"""What an OpenAI-compatible server answers, and what other servers make of that dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.wire.backends.openai.response import decode_response
from forge_proxy.wire.backends.responses import UnreadableResponse
from tests.properties import OBJECTS, VALUES, examples

HEAD: dict[str, Any] = {"id": "chatcmpl-1", "created": 1, "model": "m"}


def answer(**fields: Any) -> Chunk:
    return decode_response(json.dumps(fields).encode())


def test_a_chunk_of_a_stream_is_read() -> None:
    raw = json.dumps(
        {
            **HEAD,
            "object": "chat.completion.chunk",
            "system_fingerprint": "b1",
            "choices": [
                {"index": 1, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None, "logprobs": None},
                {
                    "index": 0,
                    "delta": {"tool_calls": [{"index": 2, "id": "c", "type": "function", "function": {"name": "f"}}]},
                    "logprobs": {"content": []},
                    "finish_reason": "tool_calls",
                },
            ],
            "usage": {"total_tokens": 3},
        }
    ).encode()

    chunk = decode_response(raw)

    assert chunk == Chunk(
        deltas=(
            Delta(1, text="Hi", extra={"role": "assistant"}),
            Delta(0, calls=(CallDelta(2, "c", "f"),), finish="tool_calls", logprobs=LogProbs({"content": b""})),
        ),
        usage={"total_tokens": 3},
        head={**HEAD, "system_fingerprint": "b1"},
    )
    assert chunk.as_sent == raw


def test_a_whole_completion_is_one_chunk() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x": 1}'}},
        ],
    }

    chunk = answer(**HEAD, choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])

    assert chunk.deltas == (
        Delta(
            reasoning="hm",
            calls=(CallDelta(0, "a", "f", "{}"), CallDelta(1, "b", "g", '{"x": 1}')),
            finish="tool_calls",
            extra={"role": "assistant", "refusal": None},
        ),
    )


@pytest.mark.parametrize(
    ("choice", "delta"),
    [
        ({}, Delta()),
        ({"delta": None}, Delta()),
        ({"delta": None, "message": {"content": "Hi"}}, Delta(text="Hi")),
        ({"delta": {"content": ""}}, Delta(text="")),
        ({"delta": {"content": 7}}, Delta()),
        ({"delta": {"reasoning": "hm"}}, Delta(reasoning="hm")),
        ({"delta": {"reasoning_content": None, "reasoning": "hm"}}, Delta(reasoning="hm")),
        ({"delta": {"reasoning_content": "hm", "reasoning": "hm"}}, Delta(reasoning="hm")),
        ({"delta": {"tool_calls": None}}, Delta()),
        ({"delta": {"tool_calls": {}}}, Delta()),
        ({"delta": {"tool_calls": [7, {"function": {"name": "f"}}]}}, Delta(calls=(CallDelta(1, name="f"),))),
        ({"delta": {"tool_calls": [{}, {}]}}, Delta(calls=(CallDelta(0), CallDelta(1)))),
        ({"delta": {"tool_calls": [{"index": None, "id": None}]}}, Delta(calls=(CallDelta(0),))),
        ({"delta": {"tool_calls": [{"index": True, "id": 7, "function": []}]}}, Delta(calls=(CallDelta(0),))),
        (
            {"delta": {"tool_calls": [{"index": 3, "function": {"name": None, "arguments": None}}]}},
            Delta(calls=(CallDelta(3),)),
        ),
        (
            {"delta": {"tool_calls": [{"function": {"name": "f", "arguments": {"x": [1]}}}]}},
            Delta(calls=(CallDelta(0, name="f", arguments='{"x":[1]}'),)),
        ),
        ({"index": "0", "delta": {}, "finish_reason": 7}, Delta()),
        (
            {"delta": {"function_call": {"name": "f"}}, "stop_reason": None, "token_ids": [1]},
            Delta(extra={"function_call": {"name": "f"}}, choice_fields={"token_ids": [1]}),
        ),
        ({"delta": {}, "logprobs": {"content": None}}, Delta(logprobs=LogProbs({"content": None}))),
        ({"delta": {}, "logprobs": {"content": "x"}}, Delta(choice_fields={"logprobs": {"content": "x"}})),
        ({"delta": {}, "logprobs": [1]}, Delta(choice_fields={"logprobs": [1]})),
    ],
)
def test_what_servers_leave_out_or_write_otherwise_is_read_all_the_same(choice: Json, delta: Delta) -> None:
    assert answer(choices=[choice]).deltas == (delta,)


def test_choices_without_an_index_are_counted() -> None:
    assert [delta.choice for delta in answer(choices=[{}, {"index": None}, {}]).deltas] == [0, 1, 2]


@pytest.mark.parametrize("choices", [None, [], {}, "x", [7]])
def test_a_response_without_choices_is_empty(choices: Json) -> None:
    assert answer(**HEAD, choices=choices, usage="x") == Chunk(head=HEAD)


def test_the_name_of_the_model_is_the_requested_one() -> None:
    raw = json.dumps({**HEAD, "choices": [], "x": {"model": "m"}}).encode()

    chunk = decode_response(raw, model="alias")

    assert chunk.head == {**HEAD, "model": "alias", "x": {"model": "m"}}
    assert json.loads(chunk.as_sent or b"") == {**HEAD, "model": "alias", "choices": [], "x": {"model": "m"}}


def test_a_missing_model_name_is_not_invented() -> None:
    assert decode_response(b'{"choices": []}', model="alias") == Chunk()


@pytest.mark.parametrize("raw", [b"", b"[DONE]", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 5000])
def test_what_is_no_json_object_is_unreadable(raw: bytes) -> None:
    with pytest.raises(UnreadableResponse) as unreadable:
        decode_response(raw)

    assert unreadable.value.error is None


@pytest.mark.parametrize("error", ["no slot", {"message": "no slot", "code": 503}, {"code": 503}])
def test_an_error_in_place_of_a_response_is_decoded(error: Json) -> None:
    with pytest.raises(UnreadableResponse) as unreadable:
        answer(error=error)

    assert unreadable.value.error == {"error": error}


@pytest.mark.parametrize("error", [None, "", {}, False])
def test_an_empty_error_is_ignored(error: Json) -> None:
    assert answer(error=error, choices=[{"delta": {"content": "Hi"}}]).deltas == (Delta(text="Hi"),)


@examples(150)
@given(choice=OBJECTS, delta=OBJECTS, call=OBJECTS, function=OBJECTS, value=VALUES)
def test_no_object_makes_the_reader_raise_anything_else(
    choice: dict[str, Json], delta: dict[str, Json], call: dict[str, Json], function: dict[str, Json], value: Json
) -> None:
    called: Json = {**call, "function": {**function, "arguments": value}}
    said: Json = {**choice, "delta": {**delta, "content": value, "tool_calls": [called, value]}}

    chunk = answer(choices=[said, value], usage=value)

    assert chunk.deltas[0].calls[0].index == 0
    assert chunk.deltas[0].text == (value if isinstance(value, str) else None)
