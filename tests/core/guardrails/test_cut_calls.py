"""Calls at the token limit: what is complete is kept, what was cut is not. And what is delivered if retries fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.guardrails import Accept, GiveUp, GuardPolicy, Retry, Turn, judge, open_turn
from forge_proxy.core.guardrails.case import select_deliverable
from forge_proxy.core.guardrails.extraction import Extraction, extract
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply

COMPLETE = '<tool_call>{"name": "look", "arguments": {"at": "sky"}}</tool_call>'
REPAIRED = "<tool_call>{'name': 'look', 'arguments': {'at': 'sky'}}</tool_call>"


def turn(limit: int | None = None, policy: GuardPolicy | None = None) -> Turn:
    tool = ToolSpec("look", {"type": "object", "properties": {"at": {"type": "string"}}})
    request = ChatRequest({}, tools=(tool,), limit=limit)
    opened = open_turn(request, policy or GuardPolicy(), request_id="r", nudge_text=True)
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


@pytest.mark.parametrize("limit", [None, 500])
def test_with_a_limit_of_the_client_the_retry_of_a_cut_call_asks_for_a_shorter_one(limit: int | None) -> None:
    cut = '<tool_call>{"name": "look", "arguments": {"at": "the sk'

    verdict = judge(turn(limit), Reply(text=cut, finish="length"))

    assert isinstance(verdict, Retry)
    assert (verdict.fault, verdict.tool) == (Fault.CUT, "look")
    added = [message.content for message in verdict.turn.added]
    assert added[:1] == ([] if limit is None else [cut])
    assert len(added) == (0 if limit is None else 2)


@pytest.mark.parametrize("fault", ["loop", "cut"])
def test_complete_text_that_was_retried_is_delivered_if_the_retry_is_worse(fault: str) -> None:
    """It ended by itself, so the client is not told that it reached a limit."""
    before = replace(turn(), first_text="The sky is blue.", faults=(Fault.TEXT_ONLY, Fault.LOOP), cut_retries_left=0)
    is_loop = fault == "loop"
    reply = Reply(text="blue " * 500 if is_loop else '<tool_call>{"name": "look", "arg', finish="length")

    verdict = judge(before, reply, loops=[Loop("text", 5, 0, 2000)] if is_loop else ())

    assert isinstance(verdict, GiveUp)
    assert verdict.answer is not None
    assert (verdict.answer.text, verdict.answer.finish) == ("The sky is blue.", "stop")


def test_the_name_of_a_deliverable_call_is_compared_in_any_spelling() -> None:
    chosen = replace(turn(), choice=ToolChoice(names=("look",)))
    calls = tuple(ToolCall(name, '{"at": "sky"}', name) for name in ("look", "functions.look", "other"))

    deliverable = select_deliverable(chosen, Extraction("", calls))

    assert [call.tool for call in deliverable] == ["look", "functions.look"]
