"""A response that repeats itself is stopped, reported, and retried once if nothing of it was sent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_proxy.core.guardrails import GuardPolicy, Switches
from forge_proxy.core.guardrails.cut import LOOP_NOTICE
from forge_proxy.engine.events import Event, LoopDetected
from tests.api.test_cuts import same
from tests.api.test_mistakes import ASK, PARIS_TEXT, both
from tests.fakes.says import Said, respond
from tests.fakes.scripted import chat
from tests.properties import examples

BEGINNING = "Let me see:\n"
ROUND = "Then I look again, and again. "
LOOPING = BEGINNING + ROUND * 1_000
SHORTENED = BEGINNING + ROUND * 2
CALL = Said(calls=(("get_weather", PARIS_TEXT),))
LIVE = GuardPolicy(text_responses="accept")


@both
async def test_buffered_text_that_loops_is_retried_without_the_loop(stream: bool) -> None:
    heard: list[Event] = []

    answer = await chat([Said(text=LOOPING, piece=50), CALL], ASK, stream=stream, heard=heard)

    assert (len(answer.calls), answer.text, answer.outcome, answer.attempts) == (1, None, "retried", 2)
    said, nudge = answer.asked[1]["messages"][-2:]
    assert said == {"role": "assistant", "content": SHORTENED}
    assert (nudge["role"], "repeated the same words" in nudge["content"]) == ("user", True)
    looped = [event for event in heard if isinstance(event, LoopDetected)]
    assert [(event.attempt, event.loop.part, event.loop.period, event.cut) for event in looped] == [
        (1, "text", len(ROUND), True)
    ]


@both
async def test_text_that_loops_again_ends_after_two_rounds_and_is_reported(stream: bool) -> None:
    answer = await chat([Said(text=LOOPING, piece=50)] * 2, ASK, stream=stream)

    assert (answer.text, answer.finish, answer.outcome, answer.attempts) == (SHORTENED, "length", "exhausted", 2)
    assert answer.marks == "loop in text: 30 characters again and again from 12 to 10240"


@both
async def test_sent_text_ends_where_the_loop_was_detected(stream: bool) -> None:
    answer = await chat([Said(text=LOOPING, piece=50)], ASK, stream=stream, policy=LIVE)

    assert (answer.text, answer.finish, answer.outcome) == (LOOPING[:10_240], "length", "exhausted")
    assert len(answer.asked) == 1


@both
async def test_a_looping_message_of_the_respond_tool_is_cut(stream: bool) -> None:
    answer = await chat([replace(respond(LOOPING), piece=50)], ASK, stream=stream)

    assert (answer.text, answer.finish, answer.calls) == (LOOPING[:10_240], "length", [])


@both
async def test_reasoning_that_loops_is_retried(stream: bool) -> None:
    answer = await chat([Said(reasoning=LOOPING, text="So.", piece=50), CALL], ASK, stream=stream)

    assert (len(answer.calls), answer.attempts, answer.outcome) == (1, 2, "retried")
    assert answer.reasoning == LOOPING[:10_240]
    assert ROUND not in json.dumps(answer.asked[1]["messages"])


@both
async def test_reasoning_that_loops_again_ends_the_response_and_is_reported(stream: bool) -> None:
    answer = await chat([Said(reasoning=LOOPING, piece=50)] * 2, ASK, stream=stream)

    assert (answer.text, answer.finish, answer.outcome) == (LOOP_NOTICE, "length", "exhausted")
    assert answer.marks == "loop in reasoning: 30 characters again and again from 12 to 10240"


@both
async def test_looping_reasoning_in_tags_is_cut_as_well(stream: bool) -> None:
    answer = await chat([Said(text="<think>" + LOOPING, piece=50), CALL], ASK, stream=stream)

    assert (len(answer.calls), answer.outcome, answer.reasoning) == (1, "retried", LOOPING[:10_240])


@both
async def test_repeated_calls_in_reasoning_are_not_calls(stream: bool) -> None:
    draft = f'<tool_call>{{"name": "get_weather", "arguments": {PARIS_TEXT}}}</tool_call>\n'

    answer = await chat([Said(reasoning=draft * 300, piece=50)] * 2, ASK, stream=stream)

    assert (answer.calls, answer.outcome, len(answer.asked)) == ([], "exhausted", 2)


async def test_a_call_before_a_loop_is_delivered() -> None:
    called = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": PARIS_TEXT}}
    deltas = [{"tool_calls": [called]}, *[{"content": ROUND * 100}] * 10]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]

    answer = await chat([Said(events=events)], ASK, stream=True)

    assert (len(answer.calls), answer.finish) == (1, "tool_calls")
    assert answer.marks == "loop in text: 30 characters again and again from 0 to 8192"


@both
async def test_the_first_text_is_delivered_if_the_retry_loops(stream: bool) -> None:
    answer = await chat([Said(text="It is sunny."), *[Said(text=LOOPING)] * 2], ASK, stream=stream)

    assert (answer.text, answer.finish, answer.attempts) == ("It is sunny.", "stop", 3)


async def test_if_a_call_is_required_a_loop_is_an_error_in_the_end() -> None:
    answer = await chat([Said(text=LOOPING)] * 2, {**ASK, "tool_choice": "required"})

    assert answer.error is not None
    assert (answer.status, answer.error["code"]) == (502, "tool_choice_unsatisfied")


@both
@pytest.mark.parametrize("arguments", [json.dumps({"city": ROUND * 1_000, "days": 3})])
async def test_arguments_of_calls_may_repeat(stream: bool, arguments: str) -> None:
    markup = f'<tool_call>{{"name": "get_weather", "arguments": {arguments}}}</tool_call>'
    said = (Said(calls=(("get_weather", arguments),)), Said(text=markup, piece=50))

    answers = [await chat([one], ASK, stream=stream) for one in said]

    assert [answer.calls for answer in answers] == [[("get_weather", json.loads(arguments))]] * 2


@both
async def test_a_loop_is_only_reported_if_on_loop_is_report(stream: bool) -> None:
    policy = GuardPolicy(text_responses="accept", on_loop="report")

    answer = await chat([Said(text=LOOPING, piece=50)], ASK, stream=stream, policy=policy)

    assert (answer.text, answer.finish, answer.outcome) == (LOOPING, "stop", "clean")
    assert answer.marks == "loop in text: 30 characters again and again from 12 to 10240"


@pytest.mark.long
@both
@pytest.mark.parametrize("how", ["daemon", "request", "no tools"])
async def test_nothing_is_cut_without_the_loop_guardrail(stream: bool, how: str) -> None:
    policy = GuardPolicy(text_responses="accept", enabled=Switches(loops=how != "daemon"))
    headers = {"x-forge-guardrails": "rescue"} if how == "request" else {}
    body = {key: value for key, value in ASK.items() if key != "tools" or how != "no tools"}

    answer = await chat([Said(text=LOOPING)], body, stream=stream, policy=policy, headers=headers)

    assert (answer.text, answer.finish, answer.marks) == (LOOPING, "stop", None)


async def test_choices_that_do_not_loop_stay_complete() -> None:
    def event(choice: int, text: str, finish: str | None = None) -> dict[str, object]:
        return {"choices": [{"index": choice, "delta": {"content": text}, "finish_reason": finish}]}

    events = [event(0, LOOPING), event(1, "It is "), event(0, ROUND), event(1, "sunny.", "stop"), event(0, ROUND)]
    heard: list[Event] = []

    await chat([Said(events=events)], {**ASK, "n": 2}, stream=True, heard=heard)
    answer = await chat([Said(events=events)], {**ASK, "n": 2}, stream=True)

    # The reader joins the choices in the order in which they came.
    assert answer.text == LOOPING[:10_240] + "It is sunny."
    assert [event.loop.end for event in heard if isinstance(event, LoopDetected)] == [10_240]


@pytest.mark.parametrize("accepts", ["nudge", "accept"])
@examples(15)
@given(
    said=st.builds(
        Said,
        text=st.sampled_from(["", "It is sunny. ", LOOPING, "<think>" + LOOPING, "{" + LOOPING, "`" + ROUND * 400]),
        reasoning=st.sampled_from([None, "Hm.", LOOPING]),
        calls=st.sampled_from(
            [
                (),
                CALL.calls,
                respond(LOOPING).calls,
                (*CALL.calls, *respond(LOOPING).calls),
                (*respond(LOOPING).calls, *CALL.calls),
            ]
        ),
    ),
    piece=st.integers(1, 3_000),
    cut=st.integers(100, 20_000),
)
@example(said=Said(text="`" + ROUND * 400), piece=2_747, cut=5_000)
def test_a_loop_gives_the_same_response_at_any_chunk_boundaries(accepts: str, said: Said, piece: int, cut: int) -> None:
    policy = GuardPolicy.model_validate({"text_responses": accepts})
    script = [*[replace(said, piece=500)] * 4, respond("the end")]
    recut = [*[replace(said, piece=piece)] * 4, respond("the end")]

    whole = asyncio.run(chat(script, ASK, policy=policy))
    if whole.status != 200:
        return
    streamed = asyncio.run(chat(recut, ASK, policy=policy, stream=True, cut=cut))

    same(streamed, whole)
