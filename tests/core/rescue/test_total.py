"""Parsing raises no error and takes bounded time for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import read_object
from forge_proxy.core.rescue import PieceKind, StreamingParser, repair_arguments, rescue
from tests.folding import folded
from tests.properties import LENGTHS, MARKUP, cut, examples, sample

NAMES = ("get_weather", "a")
SURROGATES = st.sampled_from(["\ud83d", "\ude00", "\\ud83d", "\\ude00", "\x00", "\x85", "\u2028", "\ufeff"])
HALF_TAGS = (
    "<tool_call>", "</tool_call>", "<function=", "<function=a>", "<parameter=x>", "</parameter>", "</function>",
    "[TOOL_CALLS]", "[ARGS]", "a", "get_weather", "name", "arguments", '{"name": "a"', '"arguments": {',
    "call:",
    "<|tool_call>", "<tool_call|>", '<|"|>', "<escape>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜DSML｜",
    "invoke",
    "parameter", 'name="a"', 'string="false"', "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
    "]<]minimax[>[",
    "<think>", "</think>", "<|channel|>", "<|message|>", "<|start|>", "to=a", "functools", "Action: a\n",
    "Action Input:",
    "```json\n", "```", "✿FUNCTION✿:", "✿ARGS✿:", ">>>", "tool =>", "--x", "\\u", "\\ud83d", "1e999", "True", "None",
    "//", "/*", "#", "a(", "b=", '\"\"\"',
)  # fmt: skip
WILD = st.lists(SURROGATES | st.sampled_from(MARKUP) | st.text(max_size=3), max_size=12).map("".join)


@examples(400)
@given(text=WILD, lengths=LENGTHS, names=st.sampled_from([NAMES, (), ("",), ("(", "a|b", "[ARGS]", "\ud83d")]))
def test_no_text_and_no_names_raise_an_error(text: str, lengths: list[int], names: tuple[str, ...]) -> None:
    rescued = rescue(text, names, template_thinks=False)
    repaired = repair_arguments(text)

    scan = StreamingParser(names, template_thinks=False)
    pieces = [given for piece in cut(text, lengths) for given in scan.feed(piece)] + scan.decide_postponed()
    assert rescued.text.startswith("".join(piece.text for piece in pieces if piece.kind is PieceKind.TEXT))
    assert all(0 <= found.start < found.end <= len(text) for found in rescued.calls)
    assert [call for call in scan.calls if call.open] == []
    assert repaired.text is None or read_object(repaired.text) is not None


HALVES = st.lists(
    st.sampled_from([*"{}[]()<>|=:,;/\\`'\"\n ", "｜", "▁", "✿", *HALF_TAGS]) | st.text(max_size=2), max_size=24
).map("".join)


@examples(600)
@given(text=HALVES)
def test_no_partial_markup_raises_an_error(text: str) -> None:
    rescued = rescue(text, NAMES)

    assert all(0 <= found.start < found.end <= len(text) for found in rescued.calls)
    assert all(isinstance(found.call.args(), dict) for found in rescued.calls)
    assert StreamingParser(NAMES).feed(text) is not None


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


@folded
@pytest.mark.parametrize(
    "before", ["", "<tool_call>", "<tool_call>a\n", "[TOOL_CALLS]", "a[ARGS]", "[TOOL_CALLS]a", "```json\n"]
)
@pytest.mark.parametrize("deep", sample([*DEEP.values()], 1), ids=sample([*DEEP], 1))
def test_endless_nesting_is_not_a_call(before: str, deep: str) -> None:
    text = before + deep

    assert rescue(text, NAMES).calls == ()
    assert rescue(text, NAMES).text == text


@pytest.mark.parametrize(("opening", "closing"), [('{"function":', "}"), ('{"tool_calls": [', "]}")])
def test_nesting_at_the_limit_of_the_json_parser_is_not_a_call(opening: str, closing: str) -> None:
    for depth in sample(range(300, 1000, 3), 1):
        text = "<tool_call>" + opening * depth + '{"name": "a"}' + closing * depth

        assert rescue(text, NAMES).text == text


@pytest.mark.parametrize("depth", [1, 20, 200])
def test_deep_arguments_are_not_changed(depth: int) -> None:
    arguments = '{"a": [' * depth + "1" + "]}" * depth

    assert [found.call.arguments for found in rescue(f"a[ARGS]{arguments}", NAMES).calls] == [arguments]


# Each of these would take hours if the time grew with the square of the length.
LONG = 5_000
ENDLESS = {
    "white space": "a" + " " * LONG + "b",
    "white space at the end": "a" + "\n" * LONG,
    "lines": "a" + " \n" * LONG + "b",
    "openers": "<tool_call>" * LONG,
    "openers of objects": "<tool_call>{" * LONG,
    "openers in code": "`" + "<tool_call>" * LONG + "`",
    "json in code": "```\n\n" + '{"name":\n' * LONG,
    "backticks": "`" * LONG,
    "fences": "```\n" * LONG,
    "fences of growing length": "".join("`" * (3 + i % 20) + "x\n" for i in range(LONG)),
    "mentions": "<tool_call> x" * LONG,
    "tokens": "<|im_end|>" * LONG,
    "thoughts": "<think>" * LONG,
    "empty thoughts": "<think></think>" * LONG,
    "ends of thoughts": "</think>" * LONG,
    "messages": "<|channel|>final<|message|>x<|end|>" * LONG,
    "channels": "<|channel|>analysis" * LONG,
    "pairs": "<tool_call>a" + "<arg_key>k</arg_key><arg_value>v</arg_value>" * LONG,
    "open pairs": "<tool_call>a" + "<arg_key>k</arg_key><arg_value>" * LONG,
    "children": "<a>" + "<x></x>" * LONG,
    "open children": "<a>" + "<x>" * LONG,
    "invoke tags": '<invoke name="a">' * LONG,
    "DSML": '<｜DSML｜invoke name="a">' * LONG,
    "minimax": "]<]minimax[>[" * LONG,
    "code": "a(" * LONG,
    "lists of code": "[a(" * LONG,
    "code on lines": "\na()" * LONG,
    "single quotes": "<tool_call>{'a': '" + "'x " * LONG,
    "double quotes": '<tool_call>{"a": "' + '" x' * LONG,
    "comments": "<tool_call>{" + "//x\n" * LONG,
    "open comments": "<tool_call>{" + "/* " * LONG,
    "quotes of Gemma": '<|tool_call>call:a{x:<|"|>' * LONG,
    "members of Gemma": "<|tool_call>call:a{" + 'x:<|"|>y<|"|>,' * LONG,
    "flowers": "✿FUNCTION✿: a\n" * LONG,
    "prompts": ">>>" * LONG,
    "attributes": "<tool_call>a" + ' k="v' * LONG,
    "angles": "<" * LONG,
    "arrows": "[TOOL_CALL]{tool => " * LONG,
    "a row of broken calls": "<tool_call>{'name': 'a', 'arguments': {}}</tool_call>\n" * (LONG // 10),
    "a row of loose calls": '{"name": "a", "arguments": {}}\n' * (LONG // 10),
    "names": "a[ARGS]" * LONG,
    "quotes": "<tool_call>{" + '"' * LONG,
    "backslashes": '<tool_call>{"' + "\\" * LONG,
}


# These long texts do not remain unchanged: closers without an opener are dropped, and a call was begun.
ENDLESS_CALLS = {
    "closers": ("</tool_call>" * LONG, 0),
    "parameters": ("<function=a>" + "<parameter=x></parameter>" * LONG, 1),
    "closers of parameters": ("<function=a><parameter=x>" + "</parameter> " * LONG, 1),
}


@pytest.mark.parametrize(("text", "calls"), ENDLESS_CALLS.values(), ids=ENDLESS_CALLS)
def test_many_closers_and_parameters_are_parsed_in_bounded_time(text: str, calls: int) -> None:
    rescued = rescue(text, NAMES)

    assert (rescued.text, len(rescued.calls)) == ("", calls)
    assert all(found.open for found in rescued.calls)


@folded
@pytest.mark.parametrize("text", sample([*ENDLESS.values()], 1), ids=sample([*ENDLESS], 1))
def test_a_long_repetitive_text_is_parsed_in_bounded_time(text: str) -> None:
    rescued = rescue(text, NAMES)

    assert all(found.end <= len(text) for found in rescued.calls)
    assert len(rescued.text) <= len(text)


@folded
@pytest.mark.parametrize("text", sample([*ENDLESS.values()], 1), ids=sample([*ENDLESS], 1))
def test_a_long_repetitive_text_is_streamed_in_bounded_time(text: str) -> None:
    scan = StreamingParser(NAMES)

    pieces = [
        given for at in range(0, len(text), 50) for given in scan.feed(text[at : at + 50])
    ] + scan.decide_postponed()

    assert sum(len(piece.text) for piece in pieces) <= len(text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("between", "argument", "found"), [("", "", 2000), ("\n", "```", 2000), ("\n", "`", 2000), ("`", "", 1000)]
)
def test_many_calls_are_parsed_in_bounded_time(between: str, argument: str, found: int) -> None:
    call = f'<tool_call>{{"name": "a", "arguments": {{"x": "{argument}"}}}}</tool_call>'

    assert len(rescue((call + between) * 2000, NAMES).calls) == found
