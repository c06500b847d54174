"""The reasons that `forge-proxy rescue` reports for text that looks like a call but is not one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.cli.rescue.findings import analyze
from forge_proxy.cli.rescue.json_output import to_json
from forge_proxy.cli.rescue.text_output import render_text
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
        (f"Then use {CALL}", "a call of get_weather (json) 1:10", "other text precedes it on its line; "),
        (
            f"Use {CALL} and see",
            "a call of get_weather (json) 1:5",
            "other text precedes it on its line, and text follo",
        ),
        (f'Write "{MARKED}".', "a call of get_weather (json) 1:8", "it is in quotes, HTML or a table"),
        (f"<code>{MARKED}</code> it is", "a call of get_weather (json) 1:7", "it is in quotes, HTML"),
        (f"| a | {MARKED} |", "a call of get_weather (json) 1:7", "it is in quotes, HTML or a table"),
        (f'x(a="""\n{MARKED}\n""")', "a call of get_weather (json) 2:1", "it is inside JSON or a program"),
        (f"So:\n\n    {MARKED}\n\nOk?", "a call of get_weather (json) 3:5", "it is indented like code or quoted, and"),
        (f"{'word ' * 100}:\n{CALL}", "a call of get_weather (json) 2:1", "too much text precedes it"),
        (
            f"Look:\n```json\n{CALL}\n```\nSo.",
            "a call of get_weather (json) 3:1",
            "text follows its code block",
        ),
        (f"Look:\n```\n{MARKED}\n```\nSo.", "a call of get_weather (json) 3:1", "text follows its code block"),
        (f"Write `{MARKED}` so.", "a call of get_weather (json) 1:8", "it is in code, which is displayed"),
        ("It is `get_weather(city='x')` here", "a call of get_weather (pythonic) 1:8", "it is in code, which"),
        (
            f"<think>{CALL}</think>It is sunny.",
            "a call of get_weather (json) 1:8",
            "it is in the reasoning, and a response",
        ),
        (f"<think>{CALL}\nNo.</think>", "a call of get_weather (json) 1:8", "it is in the reasoning, which continues"),
        (f"<think>Use {CALL}</think>", "a call of get_weather (json) 1:12", "it is in the reasoning, at a place"),
        ('{"name": "weather", "arguments": {}}', "a call of weather (json) 1:1", "no tool of that name is offered"),
        ("I will use get_weather now.", "the name get_weather 1:12", "only the name occurs"),
        ("The tag is <tool_call> here.", "the markup <tool_call> 1:12", "no call that can be parsed follows it"),
        (
            '<tool_call>{"name": "get_weather" "a',
            "the markup <tool_call> 1:1",
            "what follows cannot be parsed; its fi",
        ),
    ],
)
def test_rejected_candidates_have_a_reason(text: str, what: str, why: str) -> None:
    findings = analyze(turn(), text, "stop")

    assert findings.calls == ()
    (one,) = findings.rejected
    assert f"{one.description} {one.span}" == what
    assert one.reason.startswith(why)


def test_a_cut_call_is_reported_as_cut() -> None:
    findings = analyze(turn(), MARKED[:-14], "length")

    (one,) = findings.rejected
    assert one.reason.startswith("the response was cut before this call was complete")


@pytest.mark.parametrize("text", ["It is sunny.", "{}", "[1, 2]", '{"name": "Bob", "age": 3}', "", "`code`", "ready"])
def test_text_that_does_not_look_like_a_call_is_not_a_candidate(text: str) -> None:
    assert analyze(turn(), text, "stop").rejected == ()


@pytest.mark.parametrize("text", [CALL, MARKED, f"Sure:\n{CALL}", f"```json\n{CALL}\n```", f"<think>Hm.\n{CALL}"])
def test_a_text_with_calls_has_no_rejected_candidates(text: str) -> None:
    findings = analyze(turn(), text, "stop")

    assert len(findings.calls) == 1
    assert findings.rejected == ()


def test_a_call_in_the_reasoning_has_its_position_in_the_text() -> None:
    (call,) = analyze(turn(), f"<think>\nHm.\n{CALL}</think>", "stop").calls

    assert call.is_in_reasoning
    assert call.span
    assert str(call.span) == "3:1"


def test_two_calls_of_one_tool_have_different_positions() -> None:
    calls = analyze(turn(), f"{MARKED}\n{MARKED}", "stop").calls

    assert [str(call.span) for call in calls] == ["1:1", "2:1"]


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
def test_any_text_has_an_analysis(text: str, finish: str) -> None:
    findings = analyze(turn(), text, finish)

    assert render_text(findings)
    assert json.loads(to_json(findings))["broken"] == findings.extraction.broken
    for one in findings.rejected:
        assert 0 <= one.span.start < one.span.end <= len(text)
