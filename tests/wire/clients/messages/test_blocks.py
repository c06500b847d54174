"""The blocks of a message: strictly one after another, and nothing of the response lost, whatever the deltas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.stream import SIGNED_REASONING, CallDelta, Delta, ReplyBuilder
from forge_proxy.wire.clients.messages.blocks import BlockWriter
from forge_proxy.wire.clients.messages.dropped import DroppedParts
from forge_proxy.wire.clients.messages.history import decode_history
from tests.properties import TEXTS, examples

JsonDict = dict[str, Any]
SIGNED: JsonDict = {"index": 0, "type": "thinking", "thinking": "Hm.", "signature": "EqQBCgIYAhIM"}
REDACTED: JsonDict = {"index": 1, "type": "redacted_thinking", "data": "Abc"}


def write(deltas: Sequence[Delta], *, shows_reasoning: bool = True) -> list[JsonDict]:
    """The blocks that a client assembles of the events of these deltas."""
    writer = BlockWriter("toolu_r", shows_reasoning=shows_reasoning)
    events: list[Any] = [event for delta in deltas for event in writer.add(delta)] + writer.finish()
    blocks: list[JsonDict] = []
    is_open = False
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert not is_open
                is_open = True
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "input": ""})
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                ((key, value),) = [(key, value) for key, value in event["delta"].items() if key != "type"]
                name = "input" if key == "partial_json" else key
                blocks[-1][name] = blocks[-1].get(name, "") + value
            case _:
                assert event == {"type": "content_block_stop", "index": len(blocks) - 1}
                is_open = False
    assert not is_open
    return blocks


def sent_back(blocks: Any) -> JsonDict:
    """The chat message of an assistant message of these blocks."""
    (message,) = decode_history([{"role": "assistant", "content": blocks}], DroppedParts())
    return {**message}


def kinds(blocks: Sequence[JsonDict]) -> list[str]:
    return [block["type"] for block in blocks]


def call(index: int, arguments: str, **fields: Any) -> Delta:
    return Delta(calls=(CallDelta(index, arguments=arguments, **fields),))


_ARGUMENTS = st.dictionaries(TEXTS, TEXTS, max_size=2).map(json.dumps)
_CALLS = st.lists(st.tuples(st.sampled_from(["now", "get_weather"]), _ARGUMENTS), max_size=3)


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[list[Delta], list[tuple[str, str]]]:
    """Deltas of a response with reasoning, text and calls, in pieces in any order."""
    calls = draw(_CALLS)
    queues: list[list[Delta]] = [
        [Delta(reasoning=piece) for piece in draw(st.lists(TEXTS, max_size=3))],
        [Delta(text=piece) for piece in draw(st.lists(TEXTS, max_size=3))],
    ]
    for index, (name, arguments) in enumerate(calls):
        at = draw(st.integers(1, len(arguments)))
        first = call(index, "", id=f"id{index}", name=name)
        queues.append([first, *(call(index, piece) for piece in (arguments[:at], arguments[at:]) if piece)])
    deltas: list[Delta] = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        deltas.append(queue.pop(0))
    return deltas, calls


@examples(100)
@given(interleavings(), st.booleans())
def test_any_order_of_deltas_gives_whole_blocks_one_after_another(
    made: tuple[list[Delta], list[tuple[str, str]]], shows: bool
) -> None:
    deltas, calls = made
    builder = ReplyBuilder()
    for delta in deltas:
        builder.add(delta)
    reply = builder.reply()

    blocks = write(deltas, shows_reasoning=shows)

    assert "".join(block["text"] for block in blocks if block["type"] == "text") == (reply.text or "")
    thinking = [block for block in blocks if block["type"] == "thinking"]
    assert "".join(block["thinking"] for block in thinking) == ((reply.reasoning or "") if shows else "")
    assert all(block["signature"] for block in thinking)
    uses = {block["id"]: (block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"}
    assert uses == {f"id{index}": made for index, made in enumerate(calls)}


@examples(100)
@given(interleavings(), st.booleans())
def test_a_message_sent_back_is_the_response(made: tuple[list[Delta], list[tuple[str, str]]], shows: bool) -> None:
    deltas = sorted(made[0], key=lambda delta: (delta.reasoning is None, delta.text is None))
    builder = ReplyBuilder()
    for delta in deltas:
        builder.add(delta)
    reply = builder.reply()
    blocks = write(deltas, shows_reasoning=shows)
    content = [
        {**block, "input": json.loads(block["input"])} if block["type"] == "tool_use" else block for block in blocks
    ]

    message = sent_back(content)

    assert (message.get("content") or "") == (reply.text or "")
    assert message.get("reasoning_content", "") == (reply.reasoning or "")
    sent: Any = message.get("tool_calls", [])
    got = {call["id"]: (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in sent}
    assert got == {one.id: (one.tool, json.loads(one.arguments)) for one in reply.calls}


def test_a_complete_call_is_written_before_the_next_one_ends() -> None:
    writer = BlockWriter("toolu_r", shows_reasoning=True)
    writer.add(call(0, '{"a": 1}', id="a", name="now"))

    events: list[Any] = writer.add(call(1, '{"b": ', id="b", name="now"))

    assert [event["type"] for event in events] == ["content_block_stop", "content_block_start", "content_block_delta"]


def test_a_name_in_pieces_is_written_once() -> None:
    blocks = write([call(0, "", id="a", name="get_"), call(0, "", name="weather"), call(0, "{}")])

    assert [(block["name"], block["input"]) for block in blocks] == [("get_weather", "{}")]


def test_calls_without_an_id_get_different_ones() -> None:
    blocks = write([call(0, "{}", name="now"), call(1, "{}", name="now")])

    assert [block["id"] for block in blocks] == ["toolu_r_0", "toolu_r_1"]


def test_text_between_the_pieces_of_a_call_follows_the_calls() -> None:
    blocks = write([call(0, '{"a"', id="a", name="now"), Delta(text="Hm."), call(0, ": 1}"), Delta(finish="stop")])

    assert kinds(blocks) == ["tool_use", "text"]
    assert blocks[0]["input"] == '{"a": 1}'


def test_anthropics_signature_closes_the_reasoning_that_it_signs() -> None:
    signed = [Delta(reasoning="H"), Delta(reasoning="m."), Delta(extra={SIGNED_REASONING: [SIGNED]}), Delta(text="Yes")]

    blocks = write([*signed[:3], Delta(reasoning="So.", extra={SIGNED_REASONING: [REDACTED]}), signed[3]])

    assert kinds(blocks) == ["thinking", "thinking", "redacted_thinking", "text"]
    assert (blocks[0]["thinking"], blocks[0]["signature"]) == ("Hm.", "EqQBCgIYAhIM")
    assert blocks[2]["data"] == "Abc"


def test_signed_blocks_that_come_too_late_are_in_a_signature_of_our_own() -> None:
    late = [Delta(reasoning="Hm."), Delta(text="Yes"), Delta(extra={SIGNED_REASONING: [SIGNED, REDACTED]})]

    blocks = write(late)
    message = sent_back(blocks)

    assert kinds(blocks) == ["thinking", "text", "thinking"]
    expected = [{key: value for key, value in block.items() if key != "index"} for block in (SIGNED, REDACTED)]
    assert message["thinking_blocks"] == expected
    assert message["reasoning_content"] == "Hm."
