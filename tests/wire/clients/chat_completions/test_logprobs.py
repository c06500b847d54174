"""Log probabilities from the bytes of the model server to the bytes for the client: complete, wherever they are cut."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.fields import FieldsBuilder
from forge_proxy.core.guardrails import GuardPolicy, StreamGate, open_turn
from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.guardrails.verdict import FinalAnswer
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Chunk, CompletionBuilder
from forge_proxy.wire.backends.openai.stream import ChatStreamReader
from forge_proxy.wire.clients.chat_completions.response import ChunkWriter, encode_completion, encode_event
from forge_proxy.wire.sse import SseReader
from tests.properties import OBJECTS, examples

HEAD = {"id": "c", "created": 1, "model": "m"}
TOKENS = OBJECTS.map(lambda fields: {key: value for key, value in fields.items() if key != "index"})
LOGPROBS = st.none() | st.dictionaries(
    st.sampled_from(["content", "refusal"]), st.none() | st.lists(TOKENS, max_size=2), max_size=2
)
STREAMS = st.lists(LOGPROBS, min_size=1, max_size=5)


def written(logprobs: list[Any]) -> bytes:
    """The stream of a model server with one token of text in each event."""
    choices = [{"index": 0, "delta": {"content": "x"}, "logprobs": each, "finish_reason": None} for each in logprobs]
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    return b"".join(encode_event(json.dumps({**HEAD, "choices": [choice]}).encode()) for choice in [*choices, last])


def merged(logprobs: list[Any]) -> dict[str, Json]:
    """All log probabilities, merged as parsed values."""
    builder = FieldsBuilder()
    for each in logprobs:
        builder.add({"logprobs": each} if each is not None else {})
    return builder.fields()


def read(pieces: list[bytes]) -> Iterator[Chunk]:
    reader = ChatStreamReader()
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.end()


def released(gate: StreamGate, pieces: list[bytes]) -> Iterator[Chunk]:
    for chunk in read(pieces):
        for delta in chunk.deltas:
            if (free := gate.take(delta)) is not None:
                yield Chunk((free,))


def open_gate(*, buffers: bool) -> StreamGate:
    request = ChatRequest({"messages": []}, tools=(ToolSpec("search"),))
    turn = open_turn(request, GuardPolicy(), request_id="r", nudge_text=buffers)
    assert turn is not None
    return StreamGate(turn)


@examples(100)
@given(logprobs=STREAMS, piece=st.integers(1, 60))
def test_a_whole_response_has_the_log_probabilities_of_all_chunks(logprobs: list[Any], piece: int) -> None:
    sent = written(logprobs)
    builder = CompletionBuilder()
    for chunk in read([sent[at : at + piece] for at in range(0, len(sent), piece)]):
        builder.add(chunk)

    (choice,) = orjson.loads(encode_completion(builder.completion(), HEAD))["choices"]

    expected = merged(orjson.loads(json.dumps(logprobs)))
    assert {key: value for key, value in choice.items() if key == "logprobs"} == expected


@pytest.mark.parametrize("buffers", [True, False])
@examples(100)
@given(logprobs=STREAMS, piece=st.integers(1, 60))
def test_a_guarded_stream_has_the_log_probabilities_of_all_chunks(
    buffers: bool, logprobs: list[Any], piece: int
) -> None:
    sent = written(logprobs)
    gate = open_gate(buffers=buffers)
    chunks = list(released(gate, [sent[at : at + piece] for at in range(0, len(sent), piece)]))
    reply = gate.reply()
    chunks += gate.finish(FinalAnswer(reply.text, reply.calls, "stop", Outcome.CLEAN, 1))

    writer = ChunkWriter(HEAD)
    events = SseReader().feed(b"".join(writer.write(chunk, usage=False) for chunk in chunks))

    choices = [choice for each in events for choice in orjson.loads(each)["choices"]]
    expected = merged(orjson.loads(json.dumps(logprobs)))
    assert merged([choice.get("logprobs") for choice in choices]) == expected


def test_buffered_log_probabilities_are_not_visited_by_garbage_collections() -> None:
    token = {"token": "x", "logprob": -0.1, "bytes": [120], "top_logprobs": [{"token": "y", "logprob": -2}]}
    gate = open_gate(buffers=True)
    sent = written([{"content": [token], "refusal": None}] * 1000)
    before = len(gc.get_objects())

    for _ in released(gate, [sent]):
        pass

    assert len(gc.get_objects()) - before < 500
