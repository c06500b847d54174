"""Assembly of chunks: a streamed response has the same content as a whole one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import (
    CallDelta,
    Chunk,
    Completion,
    CompletionBuilder,
    Delta,
    Reply,
    ReplyBuilder,
)
from tests.properties import LENGTHS, OBJECTS, TEXTS, cut, examples

CALLS = st.lists(st.builds(ToolCall, TEXTS, TEXTS, TEXTS), max_size=3).map(tuple)
LOGPROBS = st.dictionaries(st.sampled_from(["content", "refusal"]), st.sampled_from([None, b"", b"1", b"1,2"])).map(
    LogProbs
)
REPLIES = st.builds(
    Reply,
    choice=st.integers(0, 3),
    text=st.none() | TEXTS,
    reasoning=st.none() | TEXTS,
    calls=CALLS,
    finish=st.none() | st.sampled_from(["stop", "length", "tool_calls"]),
    extra=OBJECTS,
    choice_fields=OBJECTS,
    logprobs=st.none() | LOGPROBS,
)


def delta_of(reply: Reply) -> Delta:
    """Convert a whole reply to one delta, from which `ReplyBuilder` builds the same reply."""
    return Delta(
        choice=reply.choice,
        text=reply.text,
        reasoning=reply.reasoning,
        calls=tuple(CallDelta(i, call.id, call.tool, call.arguments) for i, call in enumerate(reply.calls)),
        finish=reply.finish,
        extra=reply.extra,
        choice_fields=reply.choice_fields,
        logprobs=reply.logprobs,
    )


def build(deltas: Sequence[Delta], choice: int = 0) -> Reply:
    builder = ReplyBuilder(choice)
    for delta in deltas:
        builder.add(delta)
    return builder.reply()


@examples(150)
@given(reply=REPLIES)
def test_a_reply_as_one_delta_is_the_reply_again(reply: Reply) -> None:
    assert build([delta_of(reply)], reply.choice) == reply


@examples(100)
@given(
    replies=st.lists(REPLIES, max_size=3, unique_by=lambda reply: reply.choice),
    usage=st.none() | OBJECTS,
    head=OBJECTS,
)
def test_a_completion_survives_conversion_to_one_chunk(
    replies: list[Reply], usage: JsonObject | None, head: JsonObject
) -> None:
    completion = Completion(tuple(sorted(replies, key=lambda reply: reply.choice)), usage, head)
    builder = CompletionBuilder()

    builder.add(Chunk(tuple(delta_of(reply) for reply in completion.replies), completion.usage, completion.head))

    assert builder.completion() == completion


@examples(100)
@given(text=TEXTS, reasoning=TEXTS, arguments=TEXTS, lengths=LENGTHS)
def test_the_reply_is_independent_of_the_chunk_boundaries(
    text: str, reasoning: str, arguments: str, lengths: list[int]
) -> None:
    deltas = [Delta(calls=(CallDelta(0, "c1", "get_weather"),))]
    deltas += [Delta(text=piece) for piece in cut(text, lengths)]
    deltas += [Delta(reasoning=piece) for piece in cut(reasoning, lengths)]
    deltas += [Delta(calls=(CallDelta(0, arguments=piece),)) for piece in cut(arguments, lengths)]

    reply = build([*deltas, Delta(finish="tool_calls")])

    assert reply == Reply(
        text=text or None,
        reasoning=reasoning or None,
        calls=(ToolCall("get_weather", arguments, "c1"),),
        finish="tool_calls",
    )


def test_an_empty_text_differs_from_none() -> None:
    assert build([Delta(text="")]).text == ""
    assert build([Delta(reasoning="hm")]).text is None
    assert build([]) == Reply()


def test_calls_are_ordered_by_index() -> None:
    deltas = [Delta(calls=(CallDelta(5, "b", "two"), CallDelta(1, "a", "one", "{}")))]

    assert build(deltas).calls == (ToolCall("one", "{}", "a"), ToolCall("two", "", "b"))


@pytest.mark.parametrize(
    "pieces",
    [
        [("c1", "get_weather"), ("", "")],
        [("c1", "get_weather"), ("c1", "get_weather"), ("c2", "get_weather")],
        [("c1", "get_"), ("", "weather"), ("", "")],
        [("", "get_weather"), ("c1", "")],
        [("c1", "get_"), ("c1", "weather"), ("c1", "get_weather")],
    ],
)
def test_repeated_and_split_ids_and_names_are_assembled_once(pieces: list[tuple[str, str]]) -> None:
    reply = build([Delta(calls=(CallDelta(0, identity, name, "x"),)) for identity, name in pieces])

    assert reply.calls == (ToolCall("get_weather", "x" * len(pieces), "c1"),)


def test_the_head_keeps_the_first_value_of_each_field() -> None:
    builder = CompletionBuilder()

    builder.add(Chunk(head={"id": "a", "created": 1}))
    builder.add(Chunk((Delta(1, text="x"),), head={"id": "b", "timings": {"n": 2}}))
    builder.add(Chunk(usage={"total_tokens": 3}))

    assert builder.completion() == Completion(
        (Reply(1, text="x"),), {"total_tokens": 3}, {"id": "a", "created": 1, "timings": {"n": 2}}
    )


def test_the_source_bytes_of_a_chunk_do_not_affect_equality() -> None:
    chunk = Chunk((Delta(text="x"),), as_sent=b"{}")

    assert chunk == replace(chunk, as_sent=None)


@pytest.mark.long
@pytest.mark.parametrize("field", ["text", "reasoning", "arguments"])
def test_text_received_letter_by_letter_takes_a_few_bytes_per_letter(field: str) -> None:
    count = 100_000
    tracemalloc.start()
    builder = ReplyBuilder()
    for number in range(count):
        letters = f"{number % 10}{number % 7}"  # a new string, like one that is parsed from JSON
        call = CallDelta(0, arguments=letters)
        builder.add(
            Delta(calls=(call,))
            if field == "arguments"
            else Delta(text=letters)
            if field == "text"
            else Delta(reasoning=letters)
        )
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 8 * 2 * count


@pytest.mark.long
def test_a_name_received_letter_by_letter_takes_linear_time() -> None:
    builder = ReplyBuilder()
    for number in range(400_000):
        builder.add(Delta(calls=(CallDelta(0, name="ab"[number % 2]),)))

    assert builder.reply().calls[0].tool == "ab" * 200_000


def test_a_reply_is_assembled_once_until_the_next_delta() -> None:
    builder = ReplyBuilder()
    builder.add(Delta(text="a", logprobs=LogProbs({"content": b"1"})))
    first = builder.reply()

    assert builder.reply() is first

    builder.add(Delta(text="b"))
    assert builder.reply().text == "ab"
    assert first.text == "a"
