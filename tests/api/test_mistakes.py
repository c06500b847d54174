"""Each mistake that small models make, through the whole application, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.core.guardrails import GuardPolicy
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, chat

WEATHER: JsonDict = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "get the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}
PARIS = {"city": "Paris", "days": 3}
PARIS_TEXT = json.dumps(PARIS)
RIGHT = Said(calls=(("get_weather", PARIS_TEXT),))
ASK: JsonDict = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "Paris, for 3 days."}],
    "tools": [WEATHER],
}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@both
async def test_a_valid_call_is_forwarded_unchanged(stream: bool) -> None:
    answer = await chat([RIGHT], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS)]
    assert (answer.finish, answer.outcome, answer.attempts) == ("tool_calls", "clean", 1)


@both
@pytest.mark.parametrize(
    ("said", "form"),
    [
        (f'```json\n{{"name": "get_weather", "arguments": {PARIS_TEXT}}}\n```', "fence"),
        (f'{{"tool": "get_weather", "args": {PARIS_TEXT}}}', "bare"),
        (f'<tool_call>\n{{"name": "get_weather", "arguments": {PARIS_TEXT}}}\n</tool_call>', "hermes"),
        (
            "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>",
            "coder",
        ),
        (f"[TOOL_CALLS]get_weather{PARIS_TEXT}", "mistral"),
        (f"get_weather[ARGS]{PARIS_TEXT}", "rehearsal"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
async def test_a_call_in_the_wrong_markup_is_recovered_and_its_markup_removed(
    stream: bool, said: str, form: str
) -> None:
    answer = await chat([Said(text=said)], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS)], form
    assert answer.text is None
    assert answer.finish == "tool_calls"
    assert answer.outcome in ("rescued", "repaired")  # Qwen-Coder's values are strings, so its integer is repaired


@both
async def test_text_before_a_call_in_markup_stays_in_the_response(stream: bool) -> None:
    said = f'I will look.\n<tool_call>{{"name": "get_weather", "arguments": {PARIS_TEXT}}}</tool_call>'

    answer = await chat([Said(text=said)], ASK, stream=stream)

    assert (answer.text, answer.calls) == ("I will look.", [("get_weather", PARIS)])


@both
async def test_plain_text_is_retried_once_and_the_model_then_calls_the_tool(stream: bool) -> None:
    answer = await chat([Said(text="I will call get_weather."), RIGHT], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS)]
    assert answer.text is None
    assert (answer.outcome, answer.attempts) == ("retried", 2)
    failed, nudge = answer.asked[1]["messages"][-2:]
    assert failed == {"role": "assistant", "content": "I will call get_weather."}
    assert nudge["role"] == "user"
    assert "get_weather, respond" in nudge["content"]


@both
async def test_if_the_retry_brings_text_again_the_first_text_is_delivered(stream: bool) -> None:
    answer = await chat([Said(text="It is sunny."), Said(text="Sunny, I said.")], ASK, stream=stream)

    assert (answer.text, answer.finish) == ("It is sunny.", "stop")
    assert (answer.outcome, answer.attempts) == ("retried", 2)


@both
async def test_a_retry_may_be_answered_with_the_respond_tool(stream: bool) -> None:
    answer = await chat([Said(text="Hm."), respond("It is sunny.")], ASK, stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ("It is sunny.", [], "stop")


@both
async def test_a_call_of_the_respond_tool_becomes_text_and_is_hidden_from_the_client(stream: bool) -> None:
    answer = await chat([respond('He said "hi" \\ \n😀')], ASK, stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ('He said "hi" \\ \n😀', [], "stop")
    assert answer.outcome == "clean"
    assert [tool["function"]["name"] for tool in answer.asked[0]["tools"]] == ["get_weather", "respond"]


@both
@pytest.mark.parametrize("name", ["RESPOND", "Respond", "functions.respond", "respond.respond"])
async def test_a_misspelt_call_of_the_respond_tool_becomes_text_too(name: str, stream: bool) -> None:
    answer = await chat([Said(calls=((name, '{"message": "It is sunny."}'),))], ASK, stream=stream)

    assert (answer.text, answer.calls, answer.finish, answer.attempts) == ("It is sunny.", [], "stop", 1)


@both
async def test_a_respond_tool_of_the_client_is_an_ordinary_tool(stream: bool) -> None:
    own: JsonDict = {"type": "function", "function": {"name": "respond", "parameters": {"type": "object"}}}
    said = Said(calls=(("respond", '{"message": "mine"}'),))

    answer = await chat([said], {**ASK, "tools": [WEATHER, own]}, stream=stream)

    assert answer.calls == [("respond", {"message": "mine"})]
    assert answer.asked[0]["tools"][-1]["function"]["name"] == "respond_to_user"


@both
async def test_respond_beside_another_call_becomes_the_text_of_that_response(stream: bool) -> None:
    said = Said(calls=(("respond", '{"message": "Looking."}'), ("get_weather", PARIS_TEXT)))

    answer = await chat([said], ASK, stream=stream)

    assert (answer.text, answer.calls, answer.finish) == ("Looking.", [("get_weather", PARIS)], "tool_calls")


@both
async def test_a_call_of_an_unknown_tool_gets_a_tool_result_that_lists_the_tools(stream: bool) -> None:
    answer = await chat([Said(calls=(("weather_get", PARIS_TEXT),)), RIGHT], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS)]
    failed, nudge = answer.asked[1]["messages"][-2:]
    assert failed["tool_calls"][0]["function"] == {"name": "weather_get", "arguments": PARIS_TEXT}
    assert (nudge["role"], nudge["tool_call_id"]) == ("tool", failed["tool_calls"][0]["id"])
    assert nudge["content"].startswith("[UnknownTool] weather_get.")


@both
async def test_markup_with_an_unknown_tool_is_not_a_call_and_is_delivered_as_text_in_the_end(stream: bool) -> None:
    said = Said(text='<tool_call>{"name": "nonsense", "arguments": {}}</tool_call>')

    answer = await chat([said] * 4, ASK, stream=stream)

    assert (answer.text, answer.calls, answer.outcome) == (said.text, [], "exhausted")


@both
@pytest.mark.parametrize("said", ["functions.get_weather", "Get_Weather"])
async def test_a_name_in_another_case_or_with_a_prefix_is_repaired(stream: bool, said: str) -> None:
    answer = await chat([Said(calls=((said, PARIS_TEXT),))], ASK, stream=stream)

    assert (answer.calls, answer.outcome, answer.attempts) == ([("get_weather", PARIS)], "repaired", 1)


@both
async def test_broken_json_in_markup_is_retried(stream: bool) -> None:
    broken = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": }</tool_call>'

    answer = await chat([Said(text=broken), RIGHT], ASK, stream=stream)

    assert (answer.calls, answer.text, answer.attempts) == ([("get_weather", PARIS)], None, 2)


@both
async def test_broken_native_arguments_are_replayed_as_text_since_a_server_could_not_parse_them(stream: bool) -> None:
    answer = await chat([Said(calls=(("get_weather", '{"city": '),)), RIGHT], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS)]
    failed, nudge = answer.asked[1]["messages"][-2:]
    assert failed == {"role": "assistant", "content": 'get_weather{"city": '}
    assert nudge["role"] == "user"


@both
async def test_the_correction_names_a_missing_argument(stream: bool) -> None:
    answer = await chat([Said(calls=(("get_weather", '{"city": "Paris"}'),)), RIGHT], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS)]
    nudge = answer.asked[1]["messages"][-1]
    assert nudge["content"].startswith("[ToolArgValidationError]")
    assert "`days`: required, missing" in nudge["content"]


@both
async def test_a_mistyped_argument_is_repaired_if_it_has_one_meaning(stream: bool) -> None:
    answer = await chat([Said(calls=(("get_weather", '{"city": "Paris", "days": "3"}'),))], ASK, stream=stream)

    assert (answer.calls, answer.outcome, answer.attempts) == ([("get_weather", PARIS)], "repaired", 1)


@both
async def test_a_mistyped_argument_that_cannot_be_repaired_is_retried(stream: bool) -> None:
    answer = await chat(
        [Said(calls=(("get_weather", '{"city": "Paris", "days": "three"}'),)), RIGHT], ASK, stream=stream
    )

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert '`days`: expected integer, got "three"' in answer.asked[1]["messages"][-1]["content"]


@both
async def test_an_empty_response_is_retried(stream: bool) -> None:
    answer = await chat([Said(text=""), RIGHT], ASK, stream=stream)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)


@both
async def test_empty_responses_only_are_an_error_never_an_empty_success(stream: bool) -> None:
    answer = await chat([Said(text="")] * 4, ASK, stream=False)

    assert answer.status == 502
    assert answer.error is not None
    assert answer.error["code"] == "empty_answer"


@both
async def test_two_calls_are_both_delivered(stream: bool) -> None:
    oslo = {"city": "Oslo", "days": 1}
    said = Said(calls=(("get_weather", PARIS_TEXT), ("get_weather", json.dumps(oslo))))

    answer = await chat([said], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS), ("get_weather", oslo)]


@both
async def test_a_second_call_in_the_text_is_recovered(stream: bool) -> None:
    oslo = {"city": "Oslo", "days": 1}
    said = Said(
        text=f'<tool_call>{{"name": "get_weather", "arguments": {json.dumps(oslo)}}}</tool_call>',
        calls=(("get_weather", PARIS_TEXT),),
    )

    answer = await chat([said], ASK, stream=stream)

    assert (answer.text, answer.calls) == (None, [("get_weather", PARIS), ("get_weather", oslo)])


@both
async def test_if_one_of_two_calls_is_invalid_both_are_retried_each_with_a_result(stream: bool) -> None:
    said = Said(calls=(("get_weather", PARIS_TEXT), ("get_weather", "{}")))

    answer = await chat([said, RIGHT], ASK, stream=stream)

    assert answer.calls == [("get_weather", PARIS)]
    failed, first, second = answer.asked[1]["messages"][-3:]
    ids = [call["id"] for call in failed["tool_calls"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
    assert first["content"].startswith("[NotRun]")
    assert second["content"].startswith("[ToolArgValidationError]")


@both
async def test_with_parallel_tool_calls_false_one_call_is_delivered(stream: bool) -> None:
    said = Said(calls=(("get_weather", PARIS_TEXT), ("get_weather", PARIS_TEXT)))

    answer = await chat([said], {**ASK, "parallel_tool_calls": False}, stream=stream)

    assert answer.calls == [("get_weather", PARIS)]


@both
async def test_a_call_at_the_end_of_the_reasoning_is_a_call(stream: bool) -> None:
    thinking = f'I need it.\n<tool_call>\n{{"name": "get_weather", "arguments": {PARIS_TEXT}}}\n</tool_call>'

    answer = await chat([Said(reasoning=thinking)], ASK, stream=stream)

    assert (answer.calls, answer.outcome) == ([("get_weather", PARIS)], "rescued")
    assert answer.reasoning == thinking


@both
async def test_a_call_in_the_reasoning_is_not_a_call_if_an_answer_follows(stream: bool) -> None:
    thinking = f'Maybe <tool_call>{{"name": "get_weather", "arguments": {PARIS_TEXT}}}</tool_call>. No.'
    policy = GuardPolicy(text_responses="accept")

    answer = await chat([Said(reasoning=thinking, text="It is sunny.")], ASK, stream=stream, policy=policy)

    assert (answer.text, answer.calls) == ("It is sunny.", [])


@both
async def test_calls_that_remain_invalid_are_delivered_unchanged_and_marked_exhausted(stream: bool) -> None:
    answer = await chat([Said(calls=(("get_weather", "{}"),))] * 4, ASK, stream=stream)

    assert (answer.calls, answer.outcome, answer.attempts) == ([("get_weather", {})], "exhausted", 4)
    assert answer.finish == "tool_calls"


async def test_calls_that_remain_invalid_are_a_502_if_on_exhausted_is_error() -> None:
    policy = GuardPolicy(on_exhausted="error")

    answer = await chat([Said(calls=(("get_weather", "{}"),))] * 4, ASK, policy=policy)

    assert (answer.status, answer.error and answer.error["code"]) == (502, "tool_call_invalid")
    assert len(answer.asked) == 4


@both
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
async def test_a_required_call_is_retried_until_the_model_makes_it(stream: bool, choice: Any) -> None:
    answer = await chat([Said(text="No."), Said(text="Well."), RIGHT], {**ASK, "tool_choice": choice}, stream=stream)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 3)
    assert [tool["function"]["name"] for tool in answer.asked[0]["tools"]] == ["get_weather"]


async def test_a_required_call_that_is_never_made_is_an_error_never_text() -> None:
    answer = await chat([Said(text="No.")] * 4, {**ASK, "tool_choice": "required"})

    assert (answer.status, answer.error and answer.error["code"]) == (502, "tool_choice_unsatisfied")


@both
async def test_text_cut_by_the_clients_limit_is_delivered_unchanged(stream: bool) -> None:
    said = Said(text="It is su", finish="length")

    answer = await chat([said], {**ASK, "max_tokens": 5}, stream=stream)

    assert (answer.text, answer.finish, answer.attempts) == ("It is su", "length", 1)


@both
async def test_a_call_cut_by_the_clients_limit_is_never_delivered(stream: bool) -> None:
    said = Said(calls=(("get_weather", '{"city": "Par'),), finish="length")

    answer = await chat([said, said], {**ASK, "max_tokens": 5}, stream=stream)

    assert (answer.calls, answer.finish, answer.attempts) == ([], "length", 2)


@both
async def test_a_call_cut_by_another_limit_is_retried_once(stream: bool) -> None:
    cut = Said(calls=(("get_weather", '{"city": "Par'),), finish="length")

    answer = await chat([cut, RIGHT], ASK, stream=stream)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert answer.asked[1]["messages"] == ASK["messages"]


@both
async def test_complete_calls_before_the_cut_are_delivered(stream: bool) -> None:
    said = Said(calls=(("get_weather", PARIS_TEXT), ("get_weather", '{"ci')), finish="length")

    answer = await chat([said], ASK, stream=stream)

    assert (answer.calls, answer.finish) == ([("get_weather", PARIS)], "tool_calls")


@both
async def test_a_call_that_the_server_could_not_parse_is_retried(stream: bool) -> None:
    error = Said(status=500, body={"error": {"code": 500, "message": "Failed to parse input at pos 3"}})

    answer = await chat([error, RIGHT], ASK, stream=stream)

    assert (answer.calls, answer.attempts, answer.outcome) == ([("get_weather", PARIS)], 2, "retried")


@both
async def test_a_call_that_the_server_could_not_parse_but_quotes_is_recovered(stream: bool) -> None:
    quoted = "{'name': 'get_weather', 'arguments': " + PARIS_TEXT + "}"
    error = Said(status=500, body={"error": f"error parsing tool call: raw='{quoted}', err=invalid character"})

    answer = await chat([error], ASK, stream=stream)

    assert (answer.calls, answer.finish, answer.outcome) == ([("get_weather", PARIS)], "tool_calls", "repaired")


@both
async def test_quoted_text_that_is_not_a_call_is_retried_and_never_delivered(stream: bool) -> None:
    error = Said(status=500, body={"error": 'error parsing tool call: raw=\'{"city": "Pa\', err=unexpected end'})

    answer = await chat([error, RIGHT], ASK, stream=stream)
    failed = await chat([error] * 4, ASK, stream=stream)

    assert (answer.calls, answer.text, answer.attempts) == ([("get_weather", PARIS)], None, 2)
    assert failed.status == 500


@both
async def test_a_backend_that_is_down_is_a_502_that_names_it(stream: bool) -> None:
    answer = await chat([BackendUnreachable("http://scripted", "connection refused")], ASK, stream=stream)

    assert answer.status == 502
    assert answer.error is not None
    assert "http://scripted" in answer.error["message"]
    assert "connection refused" in answer.error["message"]


async def test_a_body_nested_too_deeply_to_forward_is_a_400() -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]

    answer = await chat([RIGHT], {**ASK, "metadata": deep})

    assert (answer.status, answer.error and answer.error["param"]) == (400, "body")


@both
async def test_a_response_of_special_tokens_only_is_delivered_unchanged_in_the_end(stream: bool) -> None:
    answer = await chat([Said(text="</s>")] * 4, ASK, stream=stream)

    assert (answer.text, answer.calls, answer.outcome) == ("</s>", [], "exhausted")


@both
async def test_a_response_of_reasoning_in_tags_only_is_delivered_as_reasoning(stream: bool) -> None:
    answer = await chat([Said(text="<think>Hm, let me see.</think>")] * 4, ASK, stream=stream)

    assert (answer.text or "", answer.calls, answer.outcome) == ("", [], "exhausted")
    assert "Hm, let me see." in (answer.reasoning or "")
