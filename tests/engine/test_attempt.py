"""One attempt: the choices of a response and the fields beside them."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.guardrails.attempt import Attempt, FinishedAttempt
from forge_proxy.core.guardrails.extraction import extract
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.core.stream import CallDelta, Chunk, Delta

WHEN: JsonObject = {"type": "object", "properties": {"days": {"type": "integer"}}}
BESIDE = Delta(
    choice_fields={"token_ids": [7]}, logprobs=LogProbs({"content": b'{"token":"x","logprob":-0.5}'}), finish="stop"
)


def turn(choices: int = 1) -> Turn:
    opened = open_turn(
        ChatRequest({}, tools=(ToolSpec("get_weather", WHEN),), choices=choices),
        GuardPolicy(),
        request_id="r",
        nudge_text=choices == 1,
    )
    assert opened
    return opened


def settled(attempt: Attempt, asked: Turn) -> FinishedAttempt:
    verdict = attempt.judge([extract(asked, reply) for reply in attempt.replies()])
    assert isinstance(verdict, FinishedAttempt)
    return verdict


def test_choices_that_the_server_does_not_return_are_omitted() -> None:
    attempt = Attempt(turn(2), 2)
    attempt.take(Chunk((Delta(text="Hello.", finish="stop"),)))

    assert [answer.text for answer in settled(attempt, turn(2)).answers] == ["Hello."]


@pytest.mark.parametrize(
    ("delta", "kept"),
    [
        (Delta(calls=(CallDelta(0, "c", "get_weather", '{"days": 3}'),)), True),
        (Delta(calls=(CallDelta(0, "c", "get_weather", '{"days": "3"}'),)), False),
        (Delta(text='<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>'), False),
    ],
    ids=["a call", "a call that was mended", "a call in text"],
)
def test_fields_beside_the_delta_are_sent_only_with_the_text_they_describe(delta: Delta, kept: bool) -> None:
    attempt = Attempt(turn(), 1)
    given = [attempt.take(Chunk((delta,))), attempt.take(Chunk((BESIDE,)))]
    chunks = [chunk for chunk in given if chunk] + settled(attempt, turn()).chunks

    deltas = [delta for chunk in chunks for delta in chunk.deltas]
    assert [out.choice_fields for out in deltas if out.choice_fields] == ([BESIDE.choice_fields] if kept else [])
    assert [out.logprobs for out in deltas if out.logprobs] == ([BESIDE.logprobs] if kept else [])
    assert [(len(out.calls), out.finish) for out in deltas if out.calls or out.finish] == [(1, None), (0, "tool_calls")]
