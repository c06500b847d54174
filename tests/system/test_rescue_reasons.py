"""The reasons that `forge-proxy rescue` gives for text that is not a call."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.cli.rescue.as_json import as_json
from forge_proxy.cli.rescue.findings import find
from forge_proxy.cli.rescue.show import show
from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
MARKED = f"<tool_call>{CALL}</tool_call>"


def turn() -> Turn:
    request = ChatRequest({}, tools=(ToolSpec("get_weather", SCHEMA), ToolSpec("read")))
    opened = open_turn(request, GuardPolicy(), request_id="r", nudge_text=True)
    assert opened
    return opened


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        (f"{CALL}\n\nI hope this helps.", "a call of get_weather (json) 1:1", "text follows it"),
        (f"Then use {CALL}", "a call of get_weather (json) 1:10", "words stand before it on its line: "),
        (
            f"Use {CALL} and see",
            "a call of get_weather (json) 1:5",
            "words stand before it on its line, and text follo",
        ),
        (f'Write "{MARKED}".', "a call of get_weather (json) 1:8", "it stands between quotes, in HTML or in a table"),
        (f"<code>{MARKED}</code> it is", "a call of get_weather (json) 1:7", "it stands between quotes, in HTML"),
        (f"| a | {MARKED} |", "a call of get_weather (json) 1:7", "it stands between quotes, in HTML or in a table"),
        (f'x(a="""\n{MARKED}\n""")', "a call of get_weather (json) 2:1", "it stands in a text of JSON or of a program"),
        (f"So:\n\n    {MARKED}\n\nOk?", "a call of get_weather (json) 3:5", "it is indented like code or quoted, and"),
        (f"{'word ' * 100}:\n{CALL}", "a call of get_weather (json) 2:1", "too much text stands before it"),
        (
            f"Look:\n```json\n{CALL}\n```\nSo.",
            "a call of get_weather (json) 3:1",
            "it stands in a code block that text",
        ),
        (f"Look:\n```\n{MARKED}\n```\nSo.", "a call of get_weather (json) 3:1", "it stands in a code block that text"),
        (f"Write `{MARKED}` so.", "a call of get_weather (json) 1:8", "it stands in code, which is shown"),
        ("It is `get_weather(city='x')` here", "a call of get_weather (pythonic) 1:8", "it stands in code, which"),
        (f"<think>{CALL}</think>It is sunny.", "a call of get_weather (json) 1:8", "it stands in the thoughts, and an"),
        (f"<think>{CALL}\nNo.</think>", "a call of get_weather (json) 1:8", "it stands in the thoughts, which go on"),
        (f"<think>Use {CALL}</think>", "a call of get_weather (json) 1:12", "it stands in the thoughts, and not where"),
        ('{"name": "weather", "arguments": {}}', "a call of weather (json) 1:1", "no tool of that name is offered"),
        ("I will use get_weather now.", "the name get_weather 1:12", "it is only named"),
        ("The tag is <tool_call> here.", "the markup <tool_call> 1:12", "no call that can be read follows it"),
        (
            '<tool_call>{"name": "get_weather" "a',
            "the markup <tool_call> 1:1",
            "what follows cannot be read; as JSON, i",
        ),
    ],
)
def test_text_that_is_not_treated_as_a_call_is_reported_with_the_reason(text: str, what: str, why: str) -> None:
    findings = find(turn(), text, "stop")

    assert findings.calls == ()
    (one,) = findings.left_out
    assert f"{one.what} {one.place}" == what
    assert one.why.startswith(why)


def test_a_cut_call_is_reported_as_cut() -> None:
    findings = find(turn(), MARKED[:-14], "length")

    (one,) = findings.left_out
    assert one.why.startswith("the answer was cut before this call was closed")


@pytest.mark.parametrize("text", ["It is sunny.", "{}", "[1, 2]", '{"name": "Bob", "age": 3}', "", "`code`", "ready"])
def test_no_reason_is_given_if_nothing_looks_like_a_call(text: str) -> None:
    assert find(turn(), text, "stop").left_out == ()


@pytest.mark.parametrize("text", [CALL, MARKED, f"Sure:\n{CALL}", f"```json\n{CALL}\n```", f"<think>Hm.\n{CALL}"])
def test_no_reason_is_given_for_a_call_that_is_read(text: str) -> None:
    findings = find(turn(), text, "stop")

    assert len(findings.calls) == 1
    assert findings.left_out == ()


def test_a_call_in_the_reasoning_is_located_in_the_text() -> None:
    (call,) = find(turn(), f"<think>\nHm.\n{CALL}</think>", "stop").calls

    assert call.in_thoughts
    assert call.place
    assert str(call.place) == "3:1"


def test_two_calls_of_one_tool_are_located_separately() -> None:
    calls = find(turn(), f"{MARKED}\n{MARKED}", "stop").calls

    assert [str(call.place) for call in calls] == ["1:1", "2:1"]


PIECES = (
    CALL,
    MARKED,
    CALL[:20],
    "<think>",
    "</think>",
    "```json\n",
    "```",
    "`",
    "get_weather(",
    '("x")',
    "\n",
    "\0",
    "é",
)


@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=8).map("".join),
    st.sampled_from(["stop", "length"]),
)
def test_any_text_gets_a_report(text: str, finish: str) -> None:
    findings = find(turn(), text, finish)

    assert show(findings)
    assert json.loads(as_json(findings))["broken"] == findings.reading.broken
    for one in findings.left_out:
        assert 0 <= one.place.start < one.place.end <= len(text)
