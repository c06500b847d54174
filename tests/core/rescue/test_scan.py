"""What leaves of a text that is still being written is how the rescued text begins, however it was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.rescue import Scan, rescue
from tests.properties import LENGTHS, TEXTS, cut, examples

NAMES = ("get_weather", "a", "respond", "get")
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'

# Whole and half beginnings of calls, and what may stand around them.
PIECES = (
    "Hi. ", "a", "\n", "\n\n", " ", "   ", "\t", "\r\n", "\u00a0", "\x0b",
    "`", "``", "```", "```json\n", "```\n", "````\n",
    "{", "[", "[ ", "[\n{", "}", "]",
    '{"', '"name"', '"name": "a"', ":", '{ "tool" :', '{"type": "x"}', CALL, f"[{CALL}]",
    "<", "<tool", "_call>", "<tool_call>", "</tool_call>", f"<tool_call>{CALL}</tool_call>",
    "<function=", "<function=a>", "<parameter=x>", "</parameter>", "</function>",
    "[TOOL", "[TOOL_CALLS]", "get_", "get_weather", "get_weather[", "[ARGS]", "a[ARGS]{}", "{}",
    "<|im_end|>", "</s>", "😀",
)  # fmt: skip
WRITTEN = st.lists(st.sampled_from(PIECES) | TEXTS, max_size=10).map("".join)


def released(pieces: list[str]) -> str:
    scan = Scan(NAMES)
    return "".join(scan.feed(piece) for piece in pieces)


@examples(1000)
@given(text=WRITTEN, lengths=LENGTHS)
def test_any_cut_lets_out_the_same_and_it_is_how_the_rescued_text_begins(text: str, lengths: list[int]) -> None:
    whole = released([text])

    assert released(cut(text, lengths)) == whole
    assert released(list(text)) == whole
    assert rescue(text, NAMES).text.startswith(whole)


@examples(300)
@given(text=WRITTEN, more=WRITTEN)
def test_what_has_left_stays_whatever_follows(text: str, more: str) -> None:
    assert released([text + more]).startswith(released([text]))
    assert rescue(text + more, NAMES).text.startswith(released([text]))


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("It is sunny.", "It is sunny."),
        ("It is sunny. \n", "It is sunny."),
        ("a < b and {x} and [1]", "a < b and {x} and [1]"),
        ("Look: <tool_call>", "Look:"),
        ("Look: <tool_ca", "Look:"),
        ("Look: <tool_calm>", "Look: <tool_calm>"),
        ("Look: <", "Look:"),
        ("Look:\n\n```json\n{", "Look:"),
        ("Look:\n```json\n[1]", "Look:\n```json\n[1]"),
        ("Look:\n```", "Look:"),
        ('Look:\n{"na', "Look:"),
        ('Look:\n{"nap": 1', 'Look:\n{"nap": 1'),
        ('Look: {"name": "x"', 'Look: {"name": "x"'),
        ("I ask get_weather", "I ask"),
        ("I ask get_weather[ARGS]{", "I ask"),
        ("I ask get_weather now", "I ask get_weather now"),
        ("[TOOL_CALLS] and then more", ""),
        ("", ""),
    ],
)
def test_only_what_may_begin_a_call_is_held(text: str, out: str) -> None:
    assert released([text]) == out


def test_text_is_held_until_it_is_certainly_no_call() -> None:
    scan = Scan(NAMES)

    steps = [(scan.feed(piece), scan.holds_text) for piece in ("Hi ", "<tool", "bar> ", " ", "<tool_call>", "x")]

    assert steps == [("Hi", False), ("", True), (" <toolbar>", False), ("", False), ("", True), ("", True)]


def test_a_long_text_in_small_pieces_keeps_nothing_back() -> None:
    text = "All work and no play makes Jack a dull boy.\n" * 500

    assert released(cut(text, [1, 2, 3])) == text.rstrip()
