"""A final answer before the tools that the user requested were called is retried once; nothing of it is sent before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails import GuardPolicy, Retry, StreamGate, judge, open_turn
from forge_proxy.core.guardrails.heuristics import ActiveHeuristics, Heuristic
from forge_proxy.core.stream import CallDelta, Delta
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.admin.world import world
from tests.api.test_mistakes import ASK, PARIS, RIGHT, both
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, chat

ASKS: JsonDict = {**ASK, "messages": [{"role": "user", "content": "What is the weather in Paris for 3 days?"}]}
MAIL: JsonDict = {"type": "function", "function": {"name": "send_mail", "parameters": {"type": "object"}}}
TEXT = Said(text="It is sunny in Paris.")
RESPOND = respond("It is sunny in Paris.")
final = pytest.mark.parametrize("said", [TEXT, RESPOND], ids=["text", "respond"])


def after(*results: str, ask: str = "Check the weather and send a mail.") -> JsonDict:
    """The request after calls of get_weather with these results."""
    messages: list[JsonDict] = [{"role": "user", "content": ask}]
    for number, result in enumerate(results):
        function = {"name": "get_weather", "arguments": json.dumps({"city": str(number), "days": 1})}
        calls = [{"id": f"h{number}", "type": "function", "function": function}]
        messages += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"h{number}", "content": result},
        ]
    return {**ASK, "tools": [*ASK["tools"], MAIL], "messages": messages}


@both
@final
async def test_the_retry_names_what_is_still_to_do(said: Said, stream: bool) -> None:
    answer = await chat([said, RIGHT], ASKS, stream=stream)

    assert (answer.text, answer.calls) == (None, [("get_weather", PARIS)])
    assert (answer.outcome, answer.attempts) == ("retried", 2)
    correction = answer.asked[1]["messages"][-1]
    assert correction["role"] == ("user" if said is TEXT else "tool")
    what = "Your answer" if said is TEXT else "respond"
    assert correction["content"] == (
        f"[StepEnforcementError] {what} comes too early. First call: get_weather. If no call can help, answer again."
    )


@both
@final
async def test_if_the_model_insists_its_answer_is_delivered(said: Said, stream: bool) -> None:
    answer = await chat([said, said], ASKS, stream=stream)

    assert (answer.text, answer.calls, answer.outcome) == ("It is sunny in Paris.", [], "retried")
    assert answer.attempts == 2


@both
async def test_the_second_of_two_tasks_is_named_and_what_is_done_is_not(stream: bool) -> None:
    mail = Said(calls=(("send_mail", "{}"),))

    answer = await chat([TEXT, mail], after("sunny"), stream=stream)

    assert answer.calls == [("send_mail", {})]
    assert "First call: send_mail." in answer.asked[1]["messages"][-1]["content"]


async def test_without_any_usable_result_any_tool_will_do() -> None:
    answer = await chat([RESPOND, RIGHT], after("Error: no such city", ask="Do it."))

    assert answer.calls == [("get_weather", PARIS)]
    assert "First call one of: get_weather, send_mail." in answer.asked[1]["messages"][-1]["content"]


@both
@final
@pytest.mark.parametrize("text", ["Hi!", "What is 2+2?", "Thanks, the weather was great.", "Explain weather."])
async def test_an_answer_to_a_message_that_asks_for_no_tool_is_not_early(text: str, said: Said, stream: bool) -> None:
    policy = GuardPolicy(max_text_nudges=0)
    body = {**ASKS, "messages": [{"role": "user", "content": text}]}

    answer = await chat([said], body, stream=stream, policy=policy)

    assert (answer.text, answer.attempts) == ("It is sunny in Paris.", 1)


@pytest.mark.parametrize(
    ("body", "policy", "header"),
    [
        ({"tool_choice": "none"}, {}, "on"),
        ({"n": 2}, {}, "on"),
        ({}, {"on_early_end": "accept"}, "on"),
        ({}, {"enabled": {"early_end": False}}, "on"),
        ({}, {"max_retries": 0}, "on"),
        ({}, {}, "respond,rescue,validate,retry,loops"),
    ],
)
async def test_it_can_be_switched_off(body: JsonDict, policy: JsonDict, header: str) -> None:
    policy = {"max_text_nudges": 0, **policy}

    answer = await chat(
        [TEXT], {**ASKS, **body}, policy=GuardPolicy.model_validate(policy), headers={"x-forge-guardrails": header}
    )

    assert (answer.text, len(answer.asked)) == (TEXT.text, 1)


async def test_accepted_text_is_never_early_but_the_respond_tool_may_be() -> None:
    policy = GuardPolicy(text_responses="accept")

    text = await chat([TEXT], ASKS, policy=policy)
    message = await chat([RESPOND, RIGHT], ASKS, policy=policy)

    assert (text.attempts, message.attempts) == (1, 2)


@both
async def test_a_failed_retry_delivers_the_first_answer(stream: bool) -> None:
    fails = Said(status=500, body={"error": {"message": "boom"}})

    for said in (TEXT, RESPOND):
        answer = await chat([said, fails], ASKS, stream=stream)

        assert (answer.status, answer.text, answer.outcome) == (200, "It is sunny in Paris.", "retried")


def released(body: JsonDict, deltas: list[Delta], **policy: Any) -> list[str]:
    """What is sent of each delta before the verdict."""
    active = ActiveHeuristics(frozenset(Heuristic), frozenset({Heuristic.EARLY_END}))
    guard = GuardPolicy.model_validate(policy)
    turn = open_turn(decode_request(body), guard, request_id="r", nudge_text=False, heuristics=active)
    assert turn is not None
    gate = StreamGate(turn)
    return [out.text or "" if (out := gate.take(delta)) else "" for delta in deltas]


MESSAGE = [
    Delta(calls=(CallDelta(0, "c", "respond", '{"message": "It is'),)),
    Delta(calls=(CallDelta(0, "", "", ' ok"}'),)),
]
WORDS = [Delta(text="It is "), Delta(text="ok, really. ")]


def test_only_an_answer_that_may_be_early_waits_for_the_verdict() -> None:
    hello = {**ASKS, "messages": [{"role": "user", "content": "Hello!"}]}

    assert released(hello, MESSAGE) == ["It is", " ok"]
    assert "".join(released(hello, WORDS)).startswith("It is ok")
    assert released(ASKS, MESSAGE) == ["", ""]
    assert released(ASKS, WORDS) == ["", ""]
    assert "".join(released(ASKS, WORDS, text_responses="accept")).startswith("It is ok")


def test_an_answer_of_which_a_part_was_sent_is_accepted() -> None:
    active = ActiveHeuristics(frozenset(Heuristic), frozenset(Heuristic))
    turn = open_turn(decode_request(ASKS), GuardPolicy(), request_id="r", nudge_text=False, heuristics=active)
    assert turn is not None
    gate = StreamGate(turn)
    for delta in WORDS:
        gate.take(delta)

    assert not isinstance(judge(turn, gate.reply(), "It is ok"), Retry)
    assert isinstance(judge(turn, gate.reply()), Retry)


async def test_what_is_learned_is_shown_used_and_reset() -> None:
    path = "/admin/v1/guardrails/heuristics"
    async with world(*[RESPOND] * 19, guardrails={"max_text_nudges": 0}) as client:
        for _ in range(9):
            await client.post("/v1/chat/completions", json=ASKS)
        (learned,) = (await client.get(path)).json()["data"]
        unknown = await client.delete(f"{path}/org/other")
        anew = await client.delete(f"{path}/scripted")
        await client.post("/v1/chat/completions", json=ASKS)
        (again,) = (await client.get(path)).json()["data"]
        empty = await client.delete(path)

    record = {"model": "scripted", "heuristic": "early_end", "effective": 0, "share": 0.0}
    assert learned == {**record, "cases": 9, "corrections": 8, "setting": "accept"}
    assert again == {**record, "cases": 1, "corrections": 1, "setting": "retry"}
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert (anew.json()["data"], empty.json()) == ([], {"object": "list", "data": []})
