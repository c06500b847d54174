"""A call that was already answered since the user's last message is retried once."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.guardrails import GuardPolicy
from tests.api.test_mistakes import ASK, PARIS, PARIS_TEXT, RIGHT, WEATHER, both
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, chat

OSLO = {"city": "Oslo", "days": 1}
OTHER = Said(calls=(("get_weather", '{"city": "Oslo", "days": 1}'),))
TOOLS = [
    WEATHER,
    *(
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("write_file", "read_note", "send_mail")
    ),
]


def history(*calls: tuple[str, Any, Any], **fields: Any) -> JsonDict:
    """The request after these calls, each a name, arguments and a result."""
    messages: list[JsonDict] = [*ASK["messages"]]
    for number, (name, arguments, result) in enumerate(calls):
        call = {"id": f"h{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"h{number}", "content": result})
    return {**ASK, "tools": TOOLS, "messages": messages, **fields}


@both
@pytest.mark.parametrize(
    "written", [PARIS_TEXT, '{"days":3.0,"city":"Paris"}', '{"city":"Paris","days":3,"unit":null}']
)
async def test_the_retry_quotes_the_result_and_may_not_call_the_tool_again(written: str, stream: bool) -> None:
    body = history(("get_weather", written, "sunny, 21 degrees"))

    answer = await chat([RIGHT, respond("Sunny.")], body, stream=stream)

    assert (answer.text, answer.calls, answer.outcome, answer.attempts) == ("Sunny.", [], "retried", 2)
    call, result = answer.asked[1]["messages"][-2:]
    assert (call["role"], result["role"]) == ("assistant", "tool")
    assert result["content"] == (
        "[RepeatedCall] get_weather was already called with these arguments. Its result was: sunny, 21 degrees\n"
        "Use this result. Continue with another call, of: write_file, read_note, send_mail, respond."
    )
    schema = answer.asked[1]["response_format"]["json_schema"]["schema"]
    names = [form["properties"]["name"]["const"] for form in schema["anyOf"]]
    assert names == ["write_file", "read_note", "send_mail", "respond"]
    assert "response_format" not in answer.asked[0]


@both
async def test_if_the_model_insists_its_call_is_delivered(stream: bool) -> None:
    answer = await chat([RIGHT, RIGHT], history(("get_weather", PARIS_TEXT, "sunny")), stream=stream)

    assert (answer.calls, answer.outcome, answer.attempts) == ([("get_weather", PARIS)], "retried", 2)


@both
async def test_the_retry_after_a_failure_names_what_failed(stream: bool) -> None:
    body = history(("get_weather", PARIS_TEXT, "Error: no such city: Paris"))

    answer = await chat([RIGHT, OTHER], body, stream=stream)

    assert answer.calls == [("get_weather", OSLO)]
    assert answer.asked[1]["messages"][-1]["content"] == (
        "[RepeatedCall] get_weather already failed with these arguments: Error: no such city: Paris\n"
        "Change `city`, or call another of: get_weather, write_file, read_note, send_mail, respond."
    )
    assert "response_format" not in answer.asked[1]  # no schema can exclude one value of any


async def test_a_value_that_failed_is_excluded_if_its_parameter_has_an_enumeration() -> None:
    city = {"type": "object", "properties": {"city": {"enum": ["Paris", "Oslo"]}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "look", "parameters": city}}
    body = history(("look", '{"city": "Paris"}', "Error: Paris is closed"), tools=[tool])
    paris, oslo = (Said(calls=(("look", f'{{"city": "{name}"}}'),)) for name in ("Paris", "Oslo"))

    answer = await chat([paris, oslo], body)

    look, _ = answer.asked[1]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert answer.calls == [("look", {"city": "Oslo"})]
    assert look["properties"]["arguments"]["properties"]["city"]["enum"] == ["Oslo"]


async def test_a_long_result_is_quoted_in_part() -> None:
    parts = [{"type": "text", "text": "sunny " * 1000}]

    answer = await chat([RIGHT, OTHER], history(("get_weather", PARIS_TEXT, parts)))

    assert answer.calls == [("get_weather", OSLO)]
    assert len(answer.asked[1]["messages"][-1]["content"]) < 1000


SAME = ("get_weather", PARIS_TEXT)


@pytest.mark.parametrize(
    "body",
    [
        history(),
        history((*SAME, "sunny"), messages=[*history((*SAME, "sunny"))["messages"], *ASK["messages"]]),
        history((*SAME, "Error: timeout")),
        history(*[(*SAME, "503 Service Unavailable")] * 3),
        history(*[(*SAME, "sunny")] * 2, *[(*SAME, "503 Service Unavailable")] * 3),
        history((*SAME, '{"status": "pending"}')),
        history((*SAME, "10 %"), (*SAME, "20 %")),
        history(("get_weather", '{"days": 1}', "1"), ("get_weather", '{"days": 1.0}', "2"), (*SAME, "sunny")),
        history((*SAME, "sunny"), ("write_file", "{}", "written")),
        history((*SAME, "sunny"), tool_choice={"type": "function", "function": {"name": "get_weather"}}),
        history(("get_weather", '{"city": "Paris", "days": true}', "sunny")),
        history(("read_note", PARIS_TEXT, "sunny")),
    ],
    ids=["nothing was called", "before the user's last message", "a timeout", "a third failure that may pass",
         "a third failure after results",
         "work under way", "a tool that is polled", "polled with other arguments", "something was changed since",
         "the client forces the tool", "other arguments", "another tool"],
)  # fmt: skip
async def test_a_call_with_a_reason_is_delivered_at_once(body: JsonDict) -> None:
    answer = await chat([RIGHT], body)

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 1)


@pytest.mark.parametrize(
    "body",
    [
        history(*[(*SAME, "503 Service Unavailable")] * 4),
        history((*SAME, "sunny"), ("read_note", "{}", "a note")),
        history((*SAME, "sunny"), ("write_file", "{}", "Error: the disk is full")),
        history(("functions.get_weather", PARIS_TEXT, "sunny")),
        history((*SAME, "sunny"), tool_choice="required"),
        history((*SAME, "sunny"), messages=[*history((*SAME, "sunny"))["messages"],
                {"role": "user", "content": "<system-reminder>Be brief.</system-reminder>"}]),
        history((*SAME, "503 Service Unavailable"), (*SAME, "sunny")),
        history((*SAME, "Error: request 17 failed"), (*SAME, "Error: request 18 failed")),
    ],
    ids=["a fourth failure", "something was only read since", "a change failed", "another spelling of the name",
         "any call is required", "an agent's reminder is no message of the user",
         "a failure before the result is no polling", "two failures are no polling"],
)  # fmt: skip
async def test_a_call_without_a_reason_is_retried(body: JsonDict) -> None:
    answer = await chat([RIGHT, OTHER], body)

    assert (answer.calls, answer.attempts) == ([("get_weather", OSLO)], 2)


async def test_a_call_that_creates_something_is_retried_although_something_was_changed_since() -> None:
    mail = Said(calls=(("send_mail", '{"to": "a"}'),))
    body = history(("send_mail", '{"to": "a"}', "sent"), ("write_file", "{}", "written"))

    answer = await chat([mail, respond("Done.")], body)

    assert (answer.text, answer.attempts) == ("Done.", 2)


async def test_a_repeated_call_beside_a_new_one_is_delivered_with_it() -> None:
    both_calls = Said(calls=(*RIGHT.calls, *OTHER.calls))

    answer = await chat([both_calls], history((*SAME, "sunny")))

    assert (len(answer.calls), answer.attempts) == (2, 1)


@pytest.mark.parametrize(
    ("policy", "header"),
    [({"on_repeat": "accept"}, "on"), ({"enabled": {"repeats": False}}, "on"), ({"enabled": {"retry": False}}, "on"),
     ({}, "respond,rescue,validate,retry,loops")],
)  # fmt: skip
async def test_it_can_be_switched_off(policy: JsonDict, header: str) -> None:
    policy_off = GuardPolicy.model_validate(policy)

    answer = await chat([RIGHT], history((*SAME, "sunny")), policy=policy_off, headers={"x-forge-guardrails": header})

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 1)


async def test_the_correction_is_sent_without_a_schema_if_the_server_rejects_it() -> None:
    rejects = Said(status=400, body={"error": {"message": "response_format is not supported"}})

    answer = await chat([RIGHT, rejects, OTHER], history((*SAME, "sunny")))

    assert (answer.calls, len(answer.asked)) == ([("get_weather", OSLO)], 3)
    assert "response_format" not in answer.asked[2]


@pytest.mark.parametrize(
    "bad",
    [Said(status=500, body={"error": {"message": "boom"}}), Said(calls=(("get_weather", '{"city": 5}'),)), Said("")],
    ids=["the server fails", "an invalid call", "nothing"],
)
async def test_the_first_call_is_delivered_if_its_retries_bring_nothing_valid(bad: Said) -> None:
    answer = await chat([RIGHT, bad, bad, bad], history((*SAME, "sunny")))

    assert (answer.calls, answer.outcome) == ([("get_weather", PARIS)], "retried")


def make_tools(*names: str) -> list[JsonDict]:
    return [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]


def ask_user(words: str, body: JsonDict) -> JsonDict:
    """The request with another message of the user at its beginning."""
    return {**body, "messages": [{"role": "user", "content": words}, *body["messages"][1:]]}


NOTHING_FOUND = "Error: nothing found"
OTHERS = ("find_invoice", "pay_invoice", "find_train", "get_weather")


@both
@pytest.mark.parametrize(
    ("words", "calls", "remaining"),
    [
        ("Find the invoice, then pay it.", [("find_invoice", "{}", "I-1"), *[(*SAME, NOTHING_FOUND)] * 2],
         ["pay_invoice", "respond"]),
        ("Find the train.", [("find_train", "{}", "T-1"), *[(*SAME, NOTHING_FOUND)] * 2], ["respond"]),
        ("Find the train.", [*[(*SAME, NOTHING_FOUND)] * 2], ["find_train", "respond"]),
        ("Find the train.", [*[("find_train", "{}", NOTHING_FOUND)] * 2, *[(*SAME, NOTHING_FOUND)] * 2], ["respond"]),
        ("Get the weather.", [(*SAME, "sunny")] * 2, ["respond"]),
        ("Zaplatit!", [(*SAME, NOTHING_FOUND)] * 2, ["find_invoice", "pay_invoice", "find_train", "respond"]),
    ],
    ids=["what the user asked for", "all is done", "no tool had a result", "what failed twice", "it succeeded twice",
         "nothing is known to be asked for"],
)  # fmt: skip
async def test_the_third_equal_call_is_limited_to_what_is_left_to_do(
    words: str, calls: list[tuple[str, Any, Any]], remaining: list[str], stream: bool
) -> None:
    tools = [WEATHER, *make_tools(*OTHERS[:-1])]
    body = ask_user(words, history(*calls, tools=tools))
    policy = GuardPolicy(on_early_end="accept")

    answer = await chat([RIGHT, respond("Here it is.")], body, policy=policy, stream=stream)

    assert (answer.text, answer.calls, answer.attempts) == ("Here it is.", [], 2)
    assert answer.asked[1]["messages"][-1]["content"].endswith(f"of: {', '.join(remaining)}.")
    schema = answer.asked[1]["response_format"]["json_schema"]["schema"]
    names = [form["properties"]["name"]["const"] for form in schema.get("anyOf", [schema])]
    assert names == remaining


async def test_the_third_equal_call_of_a_client_with_a_terminal_tool_may_end_the_task() -> None:
    tools = [WEATHER, *make_tools("attempt_completion")]
    body = ask_user("Get the weather.", history(*[(*SAME, "sunny")] * 2, tools=tools))
    ended = Said(calls=(("attempt_completion", "{}"),))

    answer = await chat([RIGHT, ended], body)

    assert answer.calls == [("attempt_completion", {})]
    assert answer.asked[1]["messages"][-1]["content"].endswith("Continue with another call, of: attempt_completion.")


async def test_the_third_equal_call_is_not_limited_if_the_model_could_not_end_the_task() -> None:
    tools = [WEATHER, *make_tools("find_train")]
    body = ask_user("Get the weather.", history(*[(*SAME, "sunny")] * 2, tools=tools, tool_choice="required"))

    answer = await chat([RIGHT, Said(calls=(("find_train", "{}"),))], body)

    assert answer.calls == [("find_train", {})]
    assert answer.asked[1]["messages"][-1]["content"].endswith("of: find_train.")
