"""Responses in the format of chat completions: valid deltas, or a whole completion."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import CallDelta, Chunk, Completion, CompletionBuilder, Delta, Reply
from forge_proxy.wire.backends.openai.response import decode_response
from forge_proxy.wire.clients.chat_completions.response import (
    DONE,
    ChunkWriter,
    encode_comment,
    encode_completion,
    encode_event,
)
from forge_proxy.wire.sse import SseReader
from tests.properties import TEXTS, examples

HEAD: JsonObject = {"id": "chatcmpl-1", "created": 1, "model": "m"}
Event = dict[str, Any]


def events(raw: bytes) -> list[Event]:
    reader = SseReader()
    found = [json.loads(data) for data in reader.feed(raw)]
    assert not reader.unfinished
    return found


def written(chunks: list[Chunk], *, usage: bool = False) -> list[Event]:
    writer = ChunkWriter(HEAD)
    return [found for chunk in chunks for found in events(writer.write(chunk, usage=usage))]


CALLS = st.lists(st.tuples(TEXTS, TEXTS.filter(bool), TEXTS), max_size=2)
ANNOTATIONS: st.SearchStrategy[list[Json]] = st.just([1])
OTHERS: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {}, optional={"role": st.just("assistant"), "refusal": TEXTS, "annotations": ANNOTATIONS}
)


@st.composite
def answers(draw: st.DrawFn) -> list[Chunk]:
    """Chunks as the engine yields them: each call whole, with its own index."""
    chunks: list[Chunk] = []
    indices = dict.fromkeys(range(3), 0)
    for _ in range(draw(st.integers(0, 6))):
        choice = draw(st.integers(0, 2))
        called = draw(CALLS)
        calls = tuple(CallDelta(indices[choice] + i, *call) for i, call in enumerate(called))
        indices[choice] += len(calls)
        delta = Delta(
            choice,
            text=draw(st.none() | TEXTS),
            reasoning=draw(st.none() | TEXTS),
            calls=calls,
            finish=draw(st.none() | st.just("stop")),
            extra=draw(OTHERS),
            choice_fields=draw(st.sampled_from([{}, {"token_ids": [1]}])),
            logprobs=draw(st.sampled_from([None, LogProbs({"content": b"1"})])),
        )
        head = draw(st.sampled_from([{}, {"id": "other", "created": 2, "model": "x"}, {"timings": {"n": 1}}]))
        chunks.append(Chunk((delta,), draw(st.none() | st.just({"total_tokens": 3})), head))
    return chunks


@examples(200)
@given(chunks=answers(), usage=st.booleans())
def test_any_response_is_encoded_as_valid_deltas(chunks: list[Chunk], usage: bool) -> None:
    begun: set[int] = set()
    named: dict[tuple[int, int], list[Json]] = {}

    for each in written(chunks, usage=usage):
        assert {key: each[key] for key in HEAD} == HEAD
        assert each["object"] == "chat.completion.chunk"
        for choice in each["choices"]:
            delta = choice["delta"]
            assert ("role" in delta) == (choice["index"] not in begun)
            begun.add(choice["index"])
            assert choice["finish_reason"] is None or delta == {}
            for call in delta.get("tool_calls", []):
                named.setdefault((choice["index"], call["index"]), []).append(call)
            assert len(delta.get("tool_calls", [])) <= 1

    for (_, index), (first, second) in named.items():  # two deltas for each call, and no third
        assert isinstance(first, dict)
        assert first.keys() == {"index", "id", "type", "function"}
        assert isinstance(first["function"], dict)
        assert (first["index"], first["type"], first["function"]["arguments"]) == (index, "function", "")
        assert isinstance(second, dict)
        assert isinstance(second["function"], dict)
        assert (second.keys(), second["function"].keys()) == ({"index", "function"}, {"arguments"})


@examples(200)
@given(chunks=answers())
def test_an_encoded_stream_decodes_to_the_same_reply(chunks: list[Chunk]) -> None:
    said, read = CompletionBuilder(), CompletionBuilder()
    for chunk in chunks:
        said.add(chunk)

    for each in written(chunks, usage=True):
        read.add(decode_response(json.dumps(each).encode()))

    meant, got = said.completion(), read.completion()
    with_role = tuple(replace(reply, extra={"role": "assistant", **reply.extra}) for reply in meant.replies)
    assert got.replies == with_role
    assert got.usage == meant.usage


def test_the_first_delta_of_a_choice_has_its_role() -> None:
    writer = ChunkWriter(HEAD)

    first = events(writer.write(Chunk((Delta(text="Hi"), Delta(1, finish="stop"))), usage=False))
    later = events(writer.write(Chunk((Delta(text="!", extra={"role": "assistant"}),)), usage=False))

    assert [each["choices"][0] for each in first] == [
        {"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None},
        {"index": 1, "delta": {"role": "assistant", "content": None}, "finish_reason": None},
        {"index": 1, "delta": {}, "finish_reason": "stop"},
    ]
    assert [each["choices"][0]["delta"] for each in later] == [{"content": "!"}]


def test_a_call_becomes_two_deltas() -> None:
    chunk = Chunk((Delta(calls=(CallDelta(0, "c1", "search", '{"q": 1}'),), finish="tool_calls"),))

    deltas = [each["choices"][0]["delta"] for each in written([chunk])]

    assert deltas == [
        {"role": "assistant", "content": None},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "search", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"q": 1}'}}]},
        {},
    ]


def test_fields_beside_a_delta_come_with_its_text() -> None:
    chunk = Chunk((Delta(text="a", logprobs=LogProbs({"content": b""}), finish="stop"),))

    assert [each["choices"][0].get("logprobs") for each in written([chunk])] == [{"content": []}, None]


@pytest.mark.parametrize(("asked", "told"), [(True, [{"total_tokens": 3}]), (False, [])])
def test_requested_usage_is_a_separate_chunk(asked: bool, told: list[Json]) -> None:
    chunk = Chunk((), {"total_tokens": 3}, {"timings": {"n": 1}})

    found = written([chunk], usage=asked)

    assert [each["usage"] for each in found] == told
    assert all(each["choices"] == [] and each["timings"] == {"n": 1} for each in found)


def test_an_empty_chunk_writes_nothing() -> None:
    assert ChunkWriter(HEAD).write(Chunk(head={"timings": {}}), usage=True) == b""


def test_a_keepalive_adds_nothing_and_takes_no_role_away() -> None:
    writer = ChunkWriter(HEAD)

    (alive,) = events(writer.keepalive())

    assert alive == {
        **HEAD,
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": None}],
    }
    (first,) = events(writer.write(Chunk((Delta(text="Hi"),)), usage=False))
    assert first["choices"][0]["delta"]["role"] == "assistant"


def test_events_and_comments_are_lines_that_cannot_be_broken() -> None:
    assert encode_event(b"{}") == b"data: {}\n\n"
    assert DONE == b"data: [DONE]\n\n"
    assert encode_comment("a=1\n\ndata: b=é") == ": a=1  data: b=é\n\n".encode()


REPLIES = st.builds(
    Reply,
    text=st.none() | TEXTS,
    reasoning=st.none() | TEXTS,
    calls=st.lists(st.builds(ToolCall, TEXTS.filter(bool), TEXTS, TEXTS), max_size=3).map(tuple),
    finish=st.sampled_from(["stop", "length", "tool_calls"]),
    extra=OTHERS,
    choice_fields=st.sampled_from([{}, {"token_ids": [1]}]),
    logprobs=st.sampled_from([None, LogProbs({"content": b"1"})]),
)


@examples(150)
@given(replies=st.lists(REPLIES, max_size=3), usage=st.none() | st.just({"total_tokens": 3}))
def test_an_encoded_whole_response_decodes_to_the_same_reply(replies: list[Reply], usage: JsonObject | None) -> None:
    numbered = tuple(replace(reply, choice=index) for index, reply in enumerate(replies))

    raw = encode_completion(Completion(numbered, usage, {"id": "other", "timings": {"n": 1}}), HEAD)

    builder = CompletionBuilder()
    builder.add(decode_response(raw))
    with_role = tuple(replace(reply, extra={"role": "assistant", **reply.extra}) for reply in numbered)
    assert builder.completion() == Completion(with_role, usage, {**HEAD, "timings": {"n": 1}})


def test_a_whole_answer_has_the_fields_that_clients_insist_on() -> None:
    reply = Reply(calls=(ToolCall("search", "{}", "c1"),), finish="tool_calls")

    assert json.loads(encode_completion(Completion((reply,)), HEAD)) == {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
    }


def test_an_answer_that_does_not_say_why_it_ended_just_stopped() -> None:
    body = json.loads(encode_completion(Completion((Reply(text="Hi"),)), HEAD))

    assert body["choices"][0]["finish_reason"] == "stop"
    assert "usage" not in body
