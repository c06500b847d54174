"""Where the incomplete call begins in a text that ended at the token limit, and what the client reads instead."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.cut import find_incomplete_call, find_tool_name, render_cut_notice

NAMES = ["get_weather", "get_weather_now"]


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("", '<tool_call>{"name": "get_weather", "arg'),
        ("I look.\n", '<tool_call>{"name": "get_weather"'),
        ("", "<tool_ca"),
        ("", "get_weather(city="),
    ],
)
def test_an_incomplete_call_begins_at_its_markup_or_its_name(before: str, call: str) -> None:
    assert find_incomplete_call(before + call, NAMES) == len(before)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text",
        "<tool_call>unreadable</tool_call>",
        "the tag `<tool_call>` begins a call",
        "other_tool(city=",
    ],
)
def test_closed_markup_and_inline_code_are_not_an_incomplete_call(text: str) -> None:
    assert find_incomplete_call(text, NAMES) is None


@pytest.mark.parametrize(
    ("fragment", "name"),
    [
        ('{"name": "get_weather", "arg', "get_weather"),
        ('{"name": "get_weather_now", "arg', "get_weather_now"),
        ('{"name": "get_w', ""),
    ],
)
def test_the_tool_of_an_incomplete_call_is_the_longest_name_in_it(fragment: str, name: str) -> None:
    assert find_tool_name(fragment, NAMES) == name


@pytest.mark.parametrize(
    ("limit", "tool", "has_reasoning", "parts"),
    [
        (20, "get_weather", False, ("call of get_weather", "limit (20 tokens)", "raise max_tokens")),
        (None, "", False, ("tool call", "the model server's token limit", "set max_tokens")),
        (20, None, True, ("while it was reasoning", "ask for less reasoning")),
        (20, None, False, ("before it gave an answer", "ask for smaller steps")),
    ],
)
def test_a_notice_names_what_was_cut_the_limit_and_what_to_do(
    limit: int | None, tool: str | None, has_reasoning: bool, parts: tuple[str, ...]
) -> None:
    notice = render_cut_notice(limit, tool, has_reasoning=has_reasoning)

    assert [part for part in parts if part not in notice] == []
