"""The bytes of a stream to chunks, however they are cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.stream import Chunk, CompletionBuilder, PromptProgress
from forge_proxy.wire.backends.openai.stream import ChatStreamReader
from tests.fakes.says import Said

SAID = Said(text="It is sunny.", calls=(("get_weather", '{"city": "Paris"}'),), reasoning="Hm.")


def read(data: bytes, length: int, *, verbatim: bool = False) -> tuple[ChatStreamReader, list[Chunk]]:
    reader = ChatStreamReader(verbatim=verbatim)
    chunks = [chunk for at in range(0, len(data), length) for chunk in reader.feed(data[at : at + length])]
    return reader, chunks + reader.end()


@given(length=st.integers(1, 3000))
def test_any_cut_gives_the_same_answer(length: int) -> None:
    builder, whole = CompletionBuilder(), CompletionBuilder()

    reader, chunks = read(SAID.as_stream(), length)

    for chunk in chunks:
        builder.add(chunk)
    for chunk in read(SAID.as_stream(), 1_000_000)[1]:
        whole.add(chunk)
    assert builder.completion() == whole.completion()
    assert builder.completion().replies[0].text == "It is sunny."
    assert (reader.is_done, reader.has_finish_reason, reader.fault) == (True, True, None)


@given(length=st.integers(1, 3000))
def test_verbatim_every_event_is_passed_on_as_it_was_sent(length: int) -> None:
    reader, chunks = read(SAID.as_stream(), length, verbatim=True)

    sent = b"".join(b"data: " + (chunk.as_sent or b"") + b"\n\n" for chunk in chunks)
    assert sent + b"data: [DONE]\n\n" == SAID.as_stream()
    assert (reader.is_done, reader.has_finish_reason) == (True, True)
    assert chunks[0].head["id"] == "chatcmpl-scripted"


@pytest.mark.parametrize("verbatim", [True, False])
@pytest.mark.parametrize("length", [1, 10_000])
def test_chunks_before_an_error_are_returned_first(verbatim: bool, length: int) -> None:
    data = SAID.as_stream().removesuffix(b"data: [DONE]\n\n") + b'data: {"error": {"code": 500, "message": "no"}}\n\n'

    reader, chunks = read(data, length, verbatim=verbatim)

    assert chunks
    assert reader.fault is not None
    assert not reader.is_done


def test_a_stream_that_ends_early_is_not_finished() -> None:
    data = SAID.as_stream()

    reader, _ = read(data[: data.index(b'"finish_reason": "')], 50)

    assert (reader.is_done, reader.has_finish_reason) == (False, False)


@pytest.mark.parametrize("verbatim", [True, False])
@given(length=st.integers(1, 3000))
def test_how_far_the_prompt_is_read_is_no_part_of_the_answer(verbatim: bool, length: int) -> None:
    told = [{"total": 20, "cache": 5, "processed": done, "time_ms": 1} for done in (5, 20)]
    before = b"".join(
        b'data: {"id":"x","choices":[],"prompt_progress":%b}\n\n' % json.dumps(one).encode() for one in told
    )
    reader = ChatStreamReader(verbatim=verbatim, progress=True)
    data = before + SAID.as_stream()

    chunks = [chunk for at in range(0, len(data), length) for chunk in reader.feed(data[at : at + length])]

    assert [chunk.progress for chunk in chunks[:2]] == [PromptProgress(5, 20), PromptProgress(20, 20)]
    assert b"".join(b"data: " + (chunk.as_sent or b"") + b"\n\n" for chunk in chunks[:2]) == before
    rest = b"".join(b"data: " + (chunk.as_sent or b"") + b"\n\n" for chunk in chunks[2:])
    assert rest + b"data: [DONE]\n\n" == SAID.as_stream()
    assert not any(chunk.progress for chunk in chunks[2:])
