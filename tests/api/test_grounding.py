"""Arguments whose values appear nowhere in the conversation are reported, and retried only if that is switched on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails import GuardPolicy
from tests.api.test_mistakes import both
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, chat

# Questions to the user and repeated calls are answers here like any other.
REPORT = GuardPolicy(grounding="report", on_early_end="accept", on_repeat="accept")
RETRY = GuardPolicy(grounding="retry", on_early_end="accept", on_repeat="accept")


def tool(name: str, **properties: Any) -> JsonDict:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}


def ask(offered: JsonDict, text: str, *more: JsonDict) -> JsonDict:
    return {"model": "scripted", "messages": [{"role": "user", "content": text}, *more], "tools": [offered]}


def call(name: str, **arguments: Any) -> Said:
    return Said(calls=((name, json.dumps(arguments)),))


ORDER = tool("get_order", order_id={"type": "string"})
ASK_ORDER = ask(ORDER, "Where is my order?")
INVENTED = call("get_order", order_id="ORD-4711")


@both
async def test_an_invented_id_is_reported_and_delivered(stream: bool) -> None:
    answer = await chat([INVENTED], ASK_ORDER, stream=stream, policy=REPORT)

    assert (answer.calls, answer.outcome, answer.attempts) == ([("get_order", {"order_id": "ORD-4711"})], "clean", 1)
    assert answer.marks == "ungrounded get_order: order_id"  # never the value


async def test_by_default_nothing_is_checked() -> None:
    assert (await chat([INVENTED], ASK_ORDER)).marks is None


@both
async def test_with_retry_the_model_is_asked_for_a_known_value_once(stream: bool) -> None:
    body = ask(ORDER, "Where is my order ORD-17?")

    answer = await chat([INVENTED, call("get_order", order_id="ord-17")], body, stream=stream, policy=RETRY)

    assert (answer.calls, answer.outcome, answer.attempts) == ([("get_order", {"order_id": "ord-17"})], "retried", 2)
    failed, correction = answer.asked[1]["messages"][-2:]
    assert failed["tool_calls"][0]["function"]["name"] == "get_order"
    assert correction["role"] == "tool"
    assert "`order_id`: not in the conversation" in correction["content"]
    assert answer.marks is None


@both
async def test_a_model_that_insists_gets_its_call_delivered(stream: bool) -> None:
    answer = await chat([INVENTED, INVENTED], ASK_ORDER, stream=stream, policy=RETRY)

    assert (answer.calls, answer.attempts) == ([("get_order", {"order_id": "ORD-4711"})], 2)
    assert answer.marks == "ungrounded get_order: order_id"


@both
async def test_a_question_to_the_user_is_a_good_answer_to_the_correction(stream: bool) -> None:
    answer = await chat([INVENTED, Said(text="Which order?")], ASK_ORDER, stream=stream, policy=RETRY)

    assert (answer.text, answer.calls, answer.attempts) == ("Which order?", [], 2)


ANY: JsonDict = {"type": ["string", "number", "object", "array"]}


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("get_order", "order_id", "ORD-4711"),
        ("get_order", "number", 48213),
        ("get_order", "amount", 19.99),
        ("read_file", "path", "/etc/app/settings.toml"),
        ("send_mail", "to", "anna.smith@example.com"),
        ("open_page", "url", "https://example.com/docs/17"),
        ("get_weather", "city", "San Francisco"),
        ("get_orders", "ids", ["A-1001", "A-1002"]),
        ("create_invoice", "customer_id", "C-88123"),
        ("get_order", "filters", {"customer": "C-88123"}),
    ],
)
async def test_values_that_must_come_from_somewhere_are_reported(name: str, argument: str, value: Any) -> None:
    body = ask(tool(name, **{argument: ANY}), "Please do it.")

    answer = await chat([call(name, **{argument: value})], body, policy=REPORT)

    assert answer.marks == f"ungrounded {name}: {argument}"


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("send_mail", "message", "The order ORD-4711 was delivered."),
        ("write_file", "content", "print(48213)"),
        ("run", "command", "ls -la /var/log/nginx"),
        ("find", "search_query", "quarterly report 48213"),
        ("write_file", "path", "src/fibonacci_helper.py"),
        ("create_branch", "branchName", "fix/issue-4711"),
        ("get_weather", "days", 365),
        ("list_files", "limit", 750),
        ("book", "date", "2026-11-24"),
        ("book", "appointment", "2026-11-24T10:30:00Z"),
        ("book", "at", "10:30"),
        ("wait", "interval", 5000),
        ("set_memory", "bytes", 4096),
        ("translate", "language", "German"),
        ("convert", "currency", "EUR"),
        ("explain", "topic", "why the sky is blue and the sea is too"),
        ("toggle", "enabled", True),
        ("get_order", "number", 42),
        ("get_order", "note", "line one\nline two 4711"),
    ],
)
async def test_the_models_own_words_are_not_reported(name: str, argument: str, value: Any) -> None:
    body = ask(tool(name, **{argument: {}}), "Please do it.")

    answer = await chat([call(name, **{argument: value})], body, policy=REPORT)

    assert answer.marks is None


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("Order ord-4711, please.", "ORD-4711"),
        ("It is number 48,213.", 48213),
        ("It costs 1.048.213 euros.", 1048213),
        ("The file main.py in src/app, please.", "src/app/main.py"),
        ("Weather in San  Francisco?", "San Francisco"),
        ("I need the restaurants of Copenhagen.", "Copenhagen restaurant"),
        ("Mail Anna Smith at example.com.", "anna.smith@example.com"),
    ],
)
async def test_values_of_the_conversation_are_not_reported(said: str, value: Any) -> None:
    body = ask(tool("look_up", thing=ANY), said)

    assert (await chat([call("look_up", thing=value)], body, policy=REPORT)).marks is None


async def test_values_of_results_and_of_earlier_calls_are_known() -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id": "X-5001"}'}}
    turns: list[JsonDict] = [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"next": "ORD-4711"}'},
    ]

    for value in ("X-5001", "ORD-4711"):
        answer = await chat([call("get_order", order_id=value)], ask(ORDER, "Go on.", *turns), policy=REPORT)
        assert answer.marks is None


@pytest.mark.parametrize("field", ["enum", "default", "examples", "const", "description"])
async def test_values_of_the_schema_are_known(field: str) -> None:
    value: Any = ["ORD-4711"] if field in ("enum", "examples") else "ORD-4711"
    body = ask(tool("get_order", order_id={field: value}), "Please do it.")

    assert (await chat([INVENTED], body, policy=REPORT)).marks is None


async def test_a_key_that_is_not_in_the_schema_is_never_named() -> None:
    answer = await chat([call("look_up", secret_key_of_mine="ABC-12345")], ask(tool("look_up"), "Go."), policy=REPORT)

    assert "secret" not in (answer.marks or "")


async def test_a_very_long_conversation_is_not_searched() -> None:
    answer = await chat([INVENTED], ask(ORDER, "word " * 250_000), policy=REPORT)

    assert answer.marks is None


def test_off_may_be_written_as_yaml_reads_it() -> None:
    assert GuardPolicy.model_validate({"grounding": False}).grounding == "off"
