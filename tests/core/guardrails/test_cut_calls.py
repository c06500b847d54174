"""Calls at the token limit: what is complete is kept, what was cut is not; and the text beside a call."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import Accept, GuardPolicy, Turn, judge, open_turn
from forge_proxy.core.guardrails.extraction import extract
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply

COMPLETE = '<tool_call>{"name": "look", "arguments": {"at": "sky"}}</tool_call>'
REPAIRED = "<tool_call>{'name': 'look', 'arguments': {'at': 'sky'}}</tool_call>"


def turn() -> Turn:
    tool = ToolSpec("look", {"type": "object", "properties": {"at": {"type": "string"}}})
    opened = open_turn(ChatRequest({}, tools=(tool,)), GuardPolicy(), request_id="r", nudge_text=True)
    assert opened
    return opened


@pytest.mark.parametrize(
    ("text", "calls", "cut"),
    [
        (COMPLETE, 1, None),
        (REPAIRED + " I look there.", 1, None),
        (REPAIRED, 0, "look"),
        ('<tool_call>{"name": "look", "arguments": {"message": "To the sk', 0, "look"),
        (REPAIRED.replace("look", "respond").replace("at'", "message'"), 1, None),
        ('<tool_call>{"name": "respond", "arguments": {"message": "', 0, ""),
    ],
    ids=["complete", "repaired before the end", "repaired at the end", "cut", "repaired message", "no message yet"],
)
def test_a_call_in_text_that_the_token_limit_may_have_cut_is_dropped(text: str, calls: int, cut: str | None) -> None:
    extraction = extract(turn(), Reply(text=text, finish="length"))

    assert (len(extraction.calls), extraction.cut) == (calls, cut)


def test_a_malformed_native_call_was_cut_only_at_the_token_limit() -> None:
    call = ToolCall("look", '{"at": "sky"', "c")

    stopped, limited = (extract(turn(), Reply(calls=(call,), finish=end)) for end in ("tool_calls", "length"))

    assert (len(stopped.calls), stopped.cut) == (1, None)
    assert (len(limited.calls), limited.cut) == (0, "look")


def test_a_cut_message_of_the_respond_tool_names_no_tool_of_the_client() -> None:
    call = ToolCall("respond", '{"mess', "c")

    assert extract(turn(), Reply(calls=(call,), finish="length")).cut == ""


def test_text_beside_a_call_is_delivered_with_it() -> None:
    asked, reply = (
        turn(),
        Reply(text="I look up.", calls=(ToolCall("look", '{"at": "sky"}', "c"),), finish="tool_calls"),
    )

    verdict = judge(asked, reply)

    assert isinstance(verdict, Accept)
    assert (verdict.answer.text, len(verdict.answer.calls)) == ("I look up.", 1)
