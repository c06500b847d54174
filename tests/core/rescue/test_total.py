"""Whatever a model writes, reading it never fails, and never takes for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.rescue import Scan, rescue
from tests.properties import LENGTHS, MARKUP, cut, examples

NAMES = ("get_weather", "a")
SURROGATES = st.sampled_from(["\ud83d", "\ude00", "\\ud83d", "\\ude00", "\x00", "\x85", "\u2028", "\ufeff"])
WILD = st.lists(SURROGATES | st.sampled_from(MARKUP) | st.text(max_size=3), max_size=12).map("".join)


@examples(400)
@given(text=WILD, lengths=LENGTHS, names=st.sampled_from([NAMES, (), ("",), ("(", "a|b", "[ARGS]", "\ud83d")]))
def test_no_text_and_no_names_make_it_raise(text: str, lengths: list[int], names: tuple[str, ...]) -> None:
    rescued = rescue(text, names)

    scan = Scan(names)
    out = "".join(scan.feed(piece) for piece in cut(text, lengths))
    assert rescued.text.startswith(out)
    assert rescued.calls or rescued.text == text


MANY = 8000
DEEP = {
    "braces": "{" * MANY,
    "brackets": "[" * MANY,
    "objects": '{"a":' * MANY + "1" + "}" * MANY,
    "a call in each": '{"name": "a", "arguments": ' * MANY,
    "envelopes": '{"function":' * MANY + '{"name": "a"}' + "}" * MANY,
    "messages": '{"tool_calls": [' * MANY + '{"name": "a"}' + "]}" * MANY,
    "lists of openers": '[{"name":' * MANY,
    "strings": '"\\' * MANY,
}


@pytest.mark.parametrize(
    "before", ["", "<tool_call>", "<tool_call>a\n", "[TOOL_CALLS]", "a[ARGS]", "[TOOL_CALLS]a", "```json\n"]
)
@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP)
def test_nesting_without_end_is_no_call(before: str, deep: str) -> None:
    text = before + deep

    assert rescue(text, NAMES).calls == ()
    assert rescue(text, NAMES).text == text


@pytest.mark.parametrize(("opening", "closing"), [('{"function":', "}"), ('{"tool_calls": [', "]}")])
def test_nesting_at_the_limit_of_the_json_reader_is_no_call(opening: str, closing: str) -> None:
    for depth in range(300, 1000, 3):
        text = "<tool_call>" + opening * depth + '{"name": "a"}' + closing * depth

        assert rescue(text, NAMES).text == text


@pytest.mark.parametrize("depth", [1, 20, 200])
def test_deep_arguments_are_read_as_they_are(depth: int) -> None:
    arguments = '{"a": [' * depth + "1" + "]}" * depth

    assert [found.call.arguments for found in rescue(f"a[ARGS]{arguments}", NAMES).calls] == [arguments]


# Each of these would take hours if the time grew with the square of the length.
LONG = 200_000
ENDLESS = {
    "white space": "a" + " " * LONG + "b",
    "white space at the end": "a" + "\n" * LONG,
    "lines": "a" + " \n" * LONG + "b",
    "openers": "<tool_call>" * LONG,
    "openers of objects": "<tool_call>{" * LONG,
    "openers in code": "`" + "<tool_call>" * LONG + "`",
    "json in code": "```\n\n" + '{"name":\n' * LONG,
    "closers": "</tool_call>" * LONG,
    "parameters": "<function=a>" + "<parameter=x></parameter>" * LONG,
    "closers of parameters": "<function=a><parameter=x>" + "</parameter> " * LONG,
    "backticks": "`" * LONG,
    "fences": "```\n" * LONG,
    "fences of growing length": "".join("`" * (3 + i % 20) + "x\n" for i in range(LONG)),
    "names": "a[ARGS]" * LONG,
    "quotes": "<tool_call>{" + '"' * LONG,
    "backslashes": '<tool_call>{"' + "\\" * LONG,
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_long_text_of_one_thing_is_read_to_its_end(text: str) -> None:
    assert rescue(text, NAMES).text == text


@pytest.mark.parametrize(
    ("between", "argument", "found"), [("", "", 2000), ("\n", "```", 2000), ("\n", "`", 2000), ("`", "", 1000)]
)
def test_a_long_row_of_calls_is_read_to_its_end(between: str, argument: str, found: int) -> None:
    call = f'<tool_call>{{"name": "a", "arguments": {{"x": "{argument}"}}}}</tool_call>'

    assert len(rescue((call + between) * 2000, NAMES).calls) == found
