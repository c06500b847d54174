"""A call of our own tool in another spelling than was offered: treated everywhere as one in the offered spelling."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import Accept, GuardPolicy, StreamGate, Turn, judge, open_turn
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import CallDelta, Delta, Reply
from tests.api.test_mistakes import ASK
from tests.fakes.says import Said
from tests.fakes.scripted import chat

spellings = pytest.mark.parametrize("name", ["RESPOND", "functions.respond", "respond.respond"])
MESSAGE = '{"message": "It is sunny."}'


def turn() -> Turn:
    request = ChatRequest({}, tools=(ToolSpec("get_weather", {"type": "object"}),))
    opened = open_turn(request, GuardPolicy(), request_id="r", nudge_text=True)
    assert opened is not None
    return opened


def called(name: str, arguments: str = MESSAGE, *, text: str | None = None, finish: str = "tool_calls") -> Reply:
    return Reply(text=text, calls=(ToolCall(name, arguments, "c1"),), finish=finish)


@spellings
def test_a_loop_beside_it_is_cut(name: str) -> None:
    loops = [Loop("text", 3, 0, 300)]

    verdicts = [judge(turn(), called(each, text="ha " * 100), loops=loops) for each in (name, "respond")]

    assert verdicts[0] == verdicts[1]


@spellings
async def test_one_with_arguments_that_hold_no_message_is_never_sent_to_the_client(name: str) -> None:
    wrong = Said(calls=((name, '{"weather": "sunny", "days": 3}'),))

    answer = await chat([wrong] * 9, ASK)

    assert answer.calls == []


@spellings
def test_a_message_that_the_token_limit_cut_is_text(name: str) -> None:
    verdicts = [judge(turn(), called(each, MESSAGE[:-6], finish="length")) for each in (name, "respond")]

    assert verdicts[0] == verdicts[1]


@spellings
def test_a_written_one_that_the_token_limit_cut_behind_its_message_is_text(name: str) -> None:
    written = f'<tool_call>\n{{"name": "{name}", "arguments": {MESSAGE[:-1]}'

    verdict = judge(turn(), Reply(text=written, finish="length"))

    assert isinstance(verdict, Accept)
    assert verdict.settled.text == "It is sunny."


@spellings
def test_its_message_leaves_while_it_is_written(name: str) -> None:
    gate = StreamGate(turn())

    for piece in (CallDelta(0, "c1", name, '{"message": "It is'), CallDelta(0, "", "", " sunny")):
        gate.take(Delta(calls=(piece,)))

    assert gate.left == "It is sunny"
