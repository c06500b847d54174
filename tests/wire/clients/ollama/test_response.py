"""Responses in Ollama's format: lines of JSON with whole calls, and a last line with counts and durations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ollama import ChatResponse, ListResponse, ProcessResponse, ShowResponse

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.guardrails import Intervention, Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import CallDelta, Chunk, Delta, PromptProgress
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.ollama.models import encode_loaded, encode_shown, encode_tags, find_capabilities
from forge_proxy.wire.clients.ollama.request import DecodedOllamaRequest, decode_chat

JsonDict = dict[str, Any]
PASSED_ON = Report(Outcome.PASSTHROUGH)
REQUEST = decode_chat({"model": "m", "messages": [{"role": "user", "content": "hi"}]})


class Ticks:
    """A clock that advances by one microsecond with each look at it."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1000
        return self.now


def lines(
    chunks: Sequence[Chunk], report: Report = PASSED_ON, request: DecodedOllamaRequest = REQUEST
) -> list[JsonDict]:
    encoder = request.with_clock(Ticks()).build_stream_encoder("r", 1_700_000_000)
    written = b"".join(map(encoder.write, chunks)) + encoder.finish(report)
    return [json.loads(line) for line in written.splitlines()]


def whole(chunks: Sequence[Chunk]) -> JsonDict:
    collector = ResponseCollector()
    for chunk in chunks:
        collector.add(chunk)
    return json.loads(REQUEST.with_clock(Ticks()).encode_response(collector, "r", 1_700_000_000))


def say(**fields: Any) -> Chunk:
    return Chunk((Delta(**fields),))


def call(index: int, arguments: str, name: str = "", identity: str = "") -> Chunk:
    return say(calls=(CallDelta(index, identity, name, arguments),))


def test_a_call_in_pieces_is_one_line_with_an_object() -> None:
    chunks = [call(0, '{"a"', "one", "c1"), call(0, ":1}"), call(1, "{}", "two", "c2"), say(finish="tool_calls")]

    first, last = lines(chunks)

    assert first["message"]["tool_calls"] == [
        {"id": "c1", "function": {"index": 0, "name": "one", "arguments": {"a": 1}}},
        {"id": "c2", "function": {"index": 1, "name": "two", "arguments": {}}},
    ]
    assert (last["done"], last["done_reason"], last["message"]["content"]) == (True, "stop", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{\n "a": "x\\ny",\r\n "b": 123456789012345678901\n}', {"a": "x\ny", "b": 123456789012345678901}),
        ("not JSON", {"_raw": "not JSON"}),
        ("[1]", {"_raw": "[1]"}),
        (" ", {}),
    ],
)  # fmt: skip
def test_arguments_are_an_object_on_one_line_with_the_models_own_numbers(arguments: str, expected: JsonDict) -> None:
    first, _ = lines([call(0, arguments, "one", "c1"), say(finish="tool_calls")])

    assert first["message"]["tool_calls"][0]["function"]["arguments"] == expected


@given(st.lists(st.sampled_from(["a", "ü", "\n", "\u2028", '"']), max_size=6), st.sampled_from(["stop", "length"]))
def test_a_stream_and_a_whole_response_have_the_same_content(texts: list[str], finish: str) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    chunks = [
        say(reasoning="Hm."), *(say(text=text) for text in texts), call(0, '{"b": 2}', "one", "c1"),
        say(finish=finish), Chunk(usage=usage, head={"timings": {"prompt_ms": 1.5, "predicted_ms": 2}}),
    ]  # fmt: skip

    streamed, at_once = lines(chunks), whole(chunks)

    for line in (*streamed, at_once):
        ChatResponse.model_validate(line, strict=True)
    assert "".join(line["message"]["content"] for line in streamed) == at_once["message"]["content"] == "".join(texts)
    assert [c for line in streamed for c in line["message"].get("tool_calls", [])] == at_once["message"]["tool_calls"]
    assert streamed[0]["message"]["thinking"] == at_once["message"]["thinking"] == "Hm."
    for key in ("done_reason", "prompt_eval_count", "eval_count", "prompt_eval_cached_count", "eval_duration"):
        assert streamed[-1][key] == at_once[key]
    assert (at_once["done_reason"], at_once["prompt_eval_count"], at_once["prompt_eval_cached_count"]) == (finish, 7, 3)
    assert (at_once["prompt_eval_duration"], at_once["eval_duration"]) == (1_500_000, 2_000_000)


def test_durations_are_measured_if_the_model_server_reports_none() -> None:
    last = lines([say(text="a"), say(text="b"), say(finish="stop")])[-1]

    assert (last["total_duration"], last["prompt_eval_duration"], last["eval_duration"]) == (2000, 1000, 1000)
    assert "eval_count" not in last


def test_the_last_line_reports_what_the_daemon_did() -> None:
    report = Report(Outcome.RETRIED, 2, interventions=(Intervention(Outcome.REPAIRED, "one", "a: string → integer"),))

    last = lines([say(text="a", finish="stop")], report)[-1]
    passed_on = lines([say(text="a", finish="stop")])[-1]

    assert (last["x-forge-outcome"], last["x-forge-attempts"]) == ("retried", 2)
    assert last["x-forge-interventions"] == ["repaired one: a: string → integer"]
    assert not [key for key in passed_on if key.startswith("x-forge")]


def test_a_keepalive_is_a_line_without_text_and_there_are_no_comments() -> None:
    encoder = REQUEST.build_stream_encoder("r", 1_700_000_000)

    (line,) = encoder.keepalive().splitlines()
    read = ChatResponse.model_validate_json(line, strict=True)
    assert (read.message.content, read.done, read.model) == ("", False, "m")
    assert read.created_at == "2023-11-14T22:13:20Z"
    assert encoder.comment("x") == b""
    assert encoder.write(Chunk(progress=PromptProgress(1, 2))) == b""


def test_an_error_is_a_line_with_a_text() -> None:
    encoder = REQUEST.build_stream_encoder("r", 0)

    assert encoder.error(ClassifiedError(502, "server_error", "x", "it broke")) == b'{"error":"it broke"}\n'


def test_a_request_without_a_model_is_answered_with_that_of_the_model_server() -> None:
    request = decode_chat({"messages": [{"role": "user", "content": "hi"}]})

    first, last = lines([Chunk((Delta(text="a"),), head={"model": "own"}), say(finish="stop")], request=request)

    assert (first["model"], last["model"]) == ("own", "own")


CARD = ModelCard(
    "coder", 8192, {"created": 1_700_000_000, "meta": {"n_params": 7_600_000_000, "size": 5, "ftype": "Q4_K_M"}}
)


def test_models_are_described_as_far_as_they_are_known() -> None:
    cards = [CARD, ModelCard("plain")]

    listed = ListResponse.model_validate_json(json.dumps(encode_tags(cards))).models
    loaded = ProcessResponse.model_validate_json(json.dumps(encode_loaded(cards))).models
    shown = ShowResponse.model_validate_json(json.dumps(encode_shown(CARD)))

    assert [(one.model, one.size) for one in listed] == [("coder", 5), ("plain", 0)]
    assert listed[0].details is not None
    assert (listed[0].details.parameter_size, listed[0].details.quantization_level) == ("7.6B", "Q4_K_M")
    assert [one.context_length for one in loaded] == [8192, None]
    assert (shown.modelinfo or {})["llama.context_length"] == 8192
    assert not [key for key in encode_shown(ModelCard("plain"))["model_info"] if key.endswith("context_length")]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("details", "capabilities"),
    [
        ({}, {"completion", "tools"}),
        ({"capabilities": ["completion", "thinking", "vision"]}, {"completion", "tools", "thinking", "vision"}),
        ({"capabilities": ["completion", "multimodal"]}, {"completion", "tools", "vision"}),
        ({"capabilities": ["embedding"]}, {"embedding"}),
        ({"architecture": {"input_modalities": ["text", "image"]}}, {"completion", "tools", "vision"}),
        ({"capabilities": {"thinking": {}}}, {"completion", "tools"}),
    ],
)
def test_capabilities_are_those_that_the_model_server_reports(details: JsonDict, capabilities: set[str]) -> None:
    assert set(find_capabilities(ModelCard("m", details=details))) == capabilities
