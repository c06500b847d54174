"""A retry that only repeats calls which already have results: the text of the first attempt is delivered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.guardrails import GuardPolicy, Retry, judge, open_turn
from forge_proxy.core.guardrails.repeats import find_repeats
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import ASK, PARIS, PARIS_TEXT, RIGHT
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, chat
from tests.properties import OBJECTS, examples

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
SUNNY = Said(text="It is sunny.")
OSLO = '{"city": "Oslo", "days": 1}'


def asked_before(arguments: Any = PARIS_TEXT, tool: str = "get_weather", *, result: bool = True) -> JsonDict:
    """The request after one round: a call, and its result unless that is missing."""
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": arguments}}
    said: list[JsonDict] = [*ASK["messages"], {"role": "assistant", "content": None, "tool_calls": [call]}]
    answered = [{"role": "tool", "tool_call_id": "c1", "content": "sunny"}] if result else []
    return {**ASK, "messages": [*said, *answered]}


@both
@pytest.mark.parametrize("written", [PARIS_TEXT, '{"days":3.0,"city":"Paris"}'], ids=["the same text", "equal values"])
async def test_a_retried_text_is_delivered_if_the_retry_repeats_an_answered_call(written: str, stream: bool) -> None:
    repeated = Said(calls=(("get_weather", written),))

    answer = await chat([SUNNY, repeated], asked_before(), stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ("It is sunny.", [], "stop")
    assert (answer.outcome, answer.attempts) == ("retried", 2)
    assert answer.marks == "retried get_weather: dropped a call that was already answered"


@both
@pytest.mark.parametrize(
    "body",
    [
        ASK,
        asked_before(OSLO),
        asked_before(tool="other"),
        asked_before(result=False),
        asked_before('{"city": "Paris", "days": true}'),
    ],
    ids=["nothing was called", "other arguments", "another tool", "no result yet", "true is not 1"],
)
async def test_a_call_that_is_new_is_delivered(body: JsonDict, stream: bool) -> None:
    answer = await chat([SUNNY, RIGHT], body, stream=stream)

    assert (answer.text, answer.calls) == (None, [("get_weather", PARIS)])


@both
async def test_a_repeated_call_beside_a_new_one_is_dropped(stream: bool) -> None:
    said = Said(calls=(("get_weather", PARIS_TEXT), ("get_weather", OSLO)))

    answer = await chat([SUNNY, said], asked_before(), stream=stream)

    assert (answer.text, answer.calls, answer.finish) == (None, [("get_weather", json.loads(OSLO))], "tool_calls")
    assert answer.marks == "retried get_weather: dropped a call that was already answered"


@both
async def test_a_message_beside_the_repeated_call_is_the_text(stream: bool) -> None:
    said = Said(calls=(*respond("Still sunny.").calls, ("get_weather", PARIS_TEXT)))

    answer = await chat([SUNNY, said], asked_before(), stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ("Still sunny.", [], "stop")


@both
async def test_a_message_beside_an_invalid_call_is_the_text(stream: bool) -> None:
    said = Said(calls=(*respond("Still sunny.").calls, ("get_weather", '{"city": "Oslo", "days": "many"}')))

    answer = await chat([SUNNY, *[said] * 3], asked_before(), stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ("Still sunny.", [], "stop")
    assert answer.outcome == "exhausted"


@both
async def test_a_new_call_beside_an_invalid_one_is_delivered_after_a_retried_text(stream: bool) -> None:
    said = Said(calls=(("get_weather", OSLO), ("get_weather", '{"city": "Oslo", "days": "many"}')))

    answer = await chat([SUNNY, *[said] * 3], asked_before(), stream=stream)

    assert [call[1]["days"] for call in answer.calls] == [1, "many"]
    assert answer.outcome == "exhausted"


async def test_arguments_that_a_client_sends_as_an_object_are_compared_as_well() -> None:
    answer = await chat([SUNNY, RIGHT], asked_before(PARIS))

    assert (answer.text, answer.calls) == ("It is sunny.", [])


def failed_before(*results: str) -> JsonDict:
    """The request after equal calls with these results."""
    body = asked_before()
    call = body["messages"][-2]
    answers = [[call, {"role": "tool", "tool_call_id": "c1", "content": result}] for result in results]
    return {**body, "messages": [*body["messages"][:-2], *(one for each in answers for one in each)]}


@both
async def test_a_call_that_failed_temporarily_may_be_made_again_after_a_text(stream: bool) -> None:
    sorry = Said(text="The service is not available.")

    answer = await chat([sorry, RIGHT], failed_before("503 Service Unavailable"), stream=stream)

    assert (answer.text, answer.calls) == (None, [("get_weather", PARIS)])


@both
@pytest.mark.parametrize(
    "results",
    [["503 Service Unavailable"] * 4, ["503 Service Unavailable", "sunny"], ["sunny", "503 Service Unavailable"]],
    ids=["it failed too often", "it succeeded then", "it had succeeded"],
)
async def test_a_call_that_failed_four_times_or_also_succeeded_is_dropped(results: list[str], stream: bool) -> None:
    answer = await chat([SUNNY, RIGHT], failed_before(*results), stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ("It is sunny.", [], "stop")


@both
async def test_after_a_text_a_call_that_failed_permanently_is_corrected_and_then_dropped(stream: bool) -> None:
    answer = await chat([SUNNY, RIGHT, RIGHT], failed_before("Error: no such city"), stream=stream)

    assert (answer.text, answer.calls, answer.attempts) == ("It is sunny.", [], 3)
    assert "already failed" in answer.asked[2]["messages"][-1]["content"]


class Counted(dict[str, Any]):
    """The function of a call, which counts how often its arguments are read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += key == "arguments"
        return super().get(key, default)


@pytest.mark.parametrize(("script", "reads"), [([RIGHT], 0), ([SUNNY, SUNNY], 0), ([SUNNY, RIGHT], 1)])
def test_the_calls_of_the_history_are_parsed_only_if_a_retry_of_plain_text_brings_calls(
    script: list[Said], reads: int
) -> None:
    function = Counted(name="get_weather", arguments=PARIS_TEXT)
    body = asked_before()
    body["messages"][-2]["tool_calls"][0]["function"] = function
    turn = open_turn(decode_request(body), GuardPolicy(), request_id="r", nudge_text=True)
    assert turn is not None

    for said in script:
        verdict = judge(turn, Reply(text=said.text, calls=tuple(ToolCall(*call) for call in said.calls)))
        turn = verdict.turn if isinstance(verdict, Retry) else turn

    assert function.reads == reads


@examples(200)
@given(args=OBJECTS, other=OBJECTS)
def test_equal_values_repeat_and_others_do_not(args: JsonDict, other: JsonDict) -> None:
    history = asked_before(ToolCall.of("f", args).arguments, tool="f")["messages"]
    backwards = dict(reversed(args.items()))

    assert find_repeats([ToolCall.of("f", backwards)], history)
    if args != other:
        assert not find_repeats([ToolCall.of("f", other)], history)


@given(depth=st.integers(1, 20_000))
@examples(20)
def test_arguments_of_any_depth_are_compared(depth: int) -> None:
    deep = ToolCall("f", f'{{"a": {"[" * depth}{"]" * depth}}}')

    assert find_repeats([deep], asked_before(deep.arguments, tool="f")["messages"])
