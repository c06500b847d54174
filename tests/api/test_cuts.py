"""However the bytes of the backend are cut, the client gets the same response, and the same as without streaming."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from forge_proxy.core.guardrails import Accept, GiveUp, GuardPolicy, Retry, StreamGate, Turn, judge, open_turn
from forge_proxy.core.stream import CallDelta, Delta, Reply
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import ASK, PARIS_TEXT
from tests.fakes.says import Said, respond
from tests.fakes.scripted import Answer, chat
from tests.properties import examples

# Pieces of which models' answers are made, right ones and wrong ones.
FRAGMENTS = st.sampled_from(
    [
        "It is sunny. ",
        "\n",
        "  ",
        "`",
        "```json\n",
        "```\n",
        "{",
        "[",
        '{"name": "get_weather", "arguments": ' + PARIS_TEXT + "}",
        '{"name": "other", "arguments": {}}',
        "<tool_call>",
        "</tool_call>",
        "<tool",
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>",
        "[TOOL_CALLS]get_weather" + PARIS_TEXT,
        "get_weather[ARGS]" + PARIS_TEXT,
        "get_wea",
        "respond",
        '<tool_call>{"name": "respond", "arguments": {"message": "hi"}}</tool_call>',
        "😀é\\",
        "<|im_end|>",
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=5).map("".join)
ARGUMENTS = st.sampled_from(
    [PARIS_TEXT, '{"city": "Paris"}', '{"city": ', "", '{"message": "a\\u00e9\\ud83d\\ude00\\n"}', '{"message": "a']
)
CALLS = st.lists(st.tuples(st.sampled_from(["get_weather", "respond", "nonsense"]), ARGUMENTS), max_size=2).map(tuple)
CALL_DELTAS = st.builds(
    CallDelta, index=st.integers(0, 2), name=st.sampled_from(["get_weather", "respond", ""]), arguments=ARGUMENTS
)
REPLIES = st.builds(
    Said,
    text=TEXTS,
    calls=CALLS,
    reasoning=st.none() | TEXTS,
    finish=st.sampled_from([None, None, None, "length"]),
    piece=st.integers(1, 40),
)


def same(one: Answer, other: Answer) -> None:
    # a stream has usage only if the request asks for it; other tests compare the bytes that pass through
    plain = [replace(answer, asked=[], usage=None, tokens=None) for answer in (one, other)]
    assert plain[0] == plain[1]
    assert [body["messages"] for body in one.asked] == [body["messages"] for body in other.asked]


@pytest.mark.parametrize("accepts", ["nudge", "accept"])
@examples(150)
@given(script=st.lists(REPLIES, min_size=4, max_size=4), cut=st.integers(1, 200), piece=st.integers(1, 30))
def test_any_chunk_boundaries_give_the_same_reply_streamed_and_whole(
    accepts: str, script: list[Said], cut: int, piece: int
) -> None:
    policy = GuardPolicy.model_validate({"text_responses": accepts})
    recut = [replace(said, piece=piece) for said in script]
    script = [*script, respond("the end")]
    recut = [*recut, respond("the end")]

    fixed = {"x-request-id": "same"}  # ids of calls are derived from it
    whole = asyncio.run(chat(script, ASK, policy=policy, headers=fixed))
    if whole.status != 200:  # an error's body is tested elsewhere; in a stream it may follow the first byte
        return
    streamed = asyncio.run(chat(script, ASK, policy=policy, headers=fixed, stream=True))
    cut_anew = asyncio.run(chat(recut, ASK, policy=policy, headers=fixed, stream=True, cut=cut))

    same(streamed, whole)
    same(cut_anew, whole)


@pytest.mark.parametrize(
    "said", [Said(text=f"Look: [TOOL_CALLS]get_weather{PARIS_TEXT}"), respond("It is sunny \u00e9😀.")]
)
async def test_a_byte_at_a_time_gives_the_same_reply_as_all_at_once(said: Said) -> None:
    whole = await chat([said], ASK)

    streamed = await chat([replace(said, piece=1)], ASK, stream=True, cut=1)

    same(streamed, whole)


NAMED_LATE = [
    Delta(calls=(CallDelta(0, arguments='{"city": "Paris"}'),)),
    Delta(calls=(CallDelta(0, name="respond", arguments='{"message": "a"}'),)),
]
"""A call whose name arrives after the beginning of its arguments."""


@pytest.mark.parametrize("accepts", [True, False])
@examples(400)
@example(deltas=NAMED_LATE, finish="stop")
@given(
    deltas=st.lists(
        st.builds(Delta, text=TEXTS) | st.builds(Delta, calls=st.tuples(CALL_DELTAS)),
        max_size=6,
    ),
    finish=st.sampled_from(["stop", "length", "tool_calls"]),
)
def test_sent_text_is_always_the_beginning_of_the_final_text(accepts: bool, deltas: list[Delta], finish: str) -> None:
    request = decode_request(ASK)
    turn = open_turn(request, GuardPolicy(), request_id="r", nudge_text=not accepts)
    assert turn is not None
    gate = StreamGate(turn)

    for delta in (*deltas, Delta(finish=finish)):
        gate.take(delta)

    verdict = judge(turn, gate.reply(), gate.sent_text)
    if isinstance(verdict, Accept | GiveUp) and verdict.answer is not None:
        assert (verdict.answer.text or "").startswith(gate.sent_text)
        rest = "".join(delta.text or "" for chunk in gate.finish(verdict.answer) for delta in chunk.deltas)
        assert gate.sent_text + rest == (verdict.answer.text or "")
        assert all(call.tool != "respond" for call in verdict.answer.calls)
    elif gate.sent_text:
        raise AssertionError("text has left and the model is asked again, or the answer is an error")


def test_a_turn_can_be_serialised_and_parsed() -> None:
    turn = open_turn(decode_request(ASK), GuardPolicy(), request_id="r", nudge_text=True)
    assert turn is not None
    verdict = judge(turn, Reply(text="I will."))
    assert isinstance(verdict, Retry)
    adapter = TypeAdapter(Turn)

    read = adapter.validate_json(adapter.dump_json(verdict.turn))

    assert read == verdict.turn
    assert json.loads(adapter.dump_json(verdict.turn))["faults"] == ["text"]
