"""Guardrails that are switched off, for the daemon or for one request, and responses that pass through."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails import GuardPolicy, Switches
from tests.api.test_mistakes import ASK, PARIS_TEXT, both
from tests.fakes.says import Said
from tests.fakes.scripted import chat

FENCED = Said(text=f'```json\n{{"name": "get_weather", "arguments": {PARIS_TEXT}}}\n```')


@both
async def test_switched_off_for_one_request_everything_passes_through(stream: bool) -> None:
    answer = await chat([FENCED], ASK, stream=stream, headers={"x-forge-guardrails": "off"})

    assert (answer.text, answer.outcome) == (FENCED.text, "passthrough")
    assert answer.asked[0] == {**ASK, "stream": stream}


@both
async def test_a_list_switches_off_all_other_guardrails(stream: bool) -> None:
    answer = await chat([FENCED], ASK, stream=stream, headers={"x-forge-guardrails": "rescue, validate"})

    assert (len(answer.calls), answer.outcome) == (1, "rescued")
    assert answer.asked[0]["tools"] == ASK["tools"]  # no respond tool


async def test_an_unknown_switch_is_a_400_that_lists_them() -> None:
    answer = await chat([FENCED], ASK, headers={"x-forge-guardrails": "rescu"})

    assert answer.status == 400
    assert answer.error is not None
    assert answer.error["param"] == "header x-forge-guardrails"
    assert "respond, rescue, validate, retry, loops, repeats, early_end" in answer.error["message"]


@both
async def test_without_rescue_text_stays_text(stream: bool) -> None:
    policy = GuardPolicy(enabled=Switches(rescue=False), text_responses="accept")

    answer = await chat([FENCED], ASK, stream=stream, policy=policy)

    assert (answer.text, answer.calls) == (FENCED.text, [])


@both
async def test_without_retry_the_first_answer_is_delivered(stream: bool) -> None:
    policy = GuardPolicy(enabled=Switches(retry=False))

    answer = await chat([Said(calls=(("nonsense", "{}"),))], ASK, stream=stream, policy=policy)

    assert (answer.calls, answer.outcome, len(answer.asked)) == ([("nonsense", {})], "exhausted", 1)


@both
async def test_without_validation_arguments_are_forwarded_unchecked(stream: bool) -> None:
    policy = GuardPolicy(enabled=Switches(validate=False))

    answer = await chat([Said(calls=(("get_weather", "{}"),))], ASK, stream=stream, policy=policy)

    assert (answer.calls, answer.outcome) == ([("get_weather", {})], "clean")


@both
@pytest.mark.parametrize("without", ["tools", "choice"])
async def test_a_request_that_offers_no_tools_passes_through(stream: bool, without: str) -> None:
    body = (
        {key: value for key, value in ASK.items() if key != "tools"}
        if without == "tools"
        else {**ASK, "tool_choice": "none"}
    )

    answer = await chat([FENCED], {**body, "temperature": 0.3, "unknown_field": [1]}, stream=stream)

    assert (answer.text, answer.outcome) == (FENCED.text, "passthrough")
    assert answer.asked == [{**body, "temperature": 0.3, "unknown_field": [1], "stream": stream}]


@both
async def test_unknown_fields_are_forwarded_with_a_guarded_request(stream: bool) -> None:
    answer = await chat([FENCED], {**ASK, "seed": 7, "mirostat": 2, "stream_options": {"x": 1}}, stream=stream)

    assert (answer.asked[0]["seed"], answer.asked[0]["mirostat"]) == (7, 2)
    assert answer.asked[0]["stream_options"]["include_usage"] is True


async def test_a_stream_that_passes_through_has_its_outcome_in_the_headers() -> None:
    body = {key: value for key, value in ASK.items() if key != "tools"}

    answer = await chat([FENCED], body, stream=True)

    assert answer.headers["x-forge-outcome"] == "passthrough"
    assert answer.headers["x-forge-attempts"] == "1"
