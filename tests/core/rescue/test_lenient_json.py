"""JSON as models break it: what is parsed and reported as repaired, and what is ambiguous."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json, read_object, write
from forge_proxy.core.rescue import repair_arguments, rescue
from tests.folding import folded
from tests.properties import OBJECTS, examples

NAMES = ("save", "load")

MARKED = {
    "hermes": '<tool_call>\n{"name": "save", "arguments": %s}\n</tool_call>',
    "mistral": "[TOOL_CALLS]save[ARGS]%s",
    "function tag": "<function=save>%s</function>",
    "harmony": "<|channel|>commentary to=functions.save <|constrain|>json<|message|>%s<|call|>",
    "deepseek": "<｜tool▁call▁begin｜>function<｜tool▁sep｜>save\n```json\n%s\n```<｜tool▁call▁end｜>",
}
LOOSE = {
    "bare": '{"name": "save", "arguments": %s}',
    "fenced": 'Saving it:\n\n```json\n{"name": "save", "arguments": %s}\n```',
}
each_wrapper = pytest.mark.parametrize("wrapper", [*MARKED.values(), *LOOSE.values()], ids=[*MARKED, *LOOSE])

MENDED: dict[str, tuple[str, Json, str]] = {
    # commas
    "a trailing comma": ('{"a": 1, "b": 2,}', {"a": 1, "b": 2}, "commas"),
    "a trailing comma in a list": ('{"a": [1, 2, ], "b": {"c": 3,\n}\n}', {"a": [1, 2], "b": {"c": 3}}, "commas"),
    "no comma after a text": ('{"a": "x" "b": 2}', {"a": "x", "b": 2}, "commas"),
    "no comma after a number": ('{"a": 1\n "b": 2}', {"a": 1, "b": 2}, "commas"),
    "no comma after an object": ('{"a": {"b": 1} "c": [2] "d": 3}', {"a": {"b": 1}, "c": [2], "d": 3}, "commas"),
    "no comma between texts of a list": ('{"a": ["x" "y"\n"z"]}', {"a": ["x", "y", "z"]}, "commas"),
    "keys as options, in one line": ('{--a "x" --b 2}', {"a": "x", "b": 2}, "commas, keys"),
    # quotes
    "single quotes": ("{'a': 'x', 'b': ['y', 'z']}", {"a": "x", "b": ["y", "z"]}, "quotes"),
    "single quotes and an escaped apostrophe": (r"{'a': 'it\'s'}", {"a": "it's"}, "quotes"),
    "single quotes and an apostrophe": ("{'a': 'it's ok'}", {"a": "it's ok"}, "quotes"),
    "single quotes around double ones": ("""{'a': 'say "hi"'}""", {"a": 'say "hi"'}, "quotes"),
    "both kinds of quotes": ("""{'a': "it's", "b": 'x'}""", {"a": "it's", "b": "x"}, "quotes"),
    "curly quotes": ("{“a”: “x y”}", {"a": "x y"}, "quotes"),
    "an empty text": ("{'a': ''}", {"a": ""}, "quotes"),
    "backticks": ('{"a": `x "y" z`}', {"a": 'x "y" z'}, "quotes"),
    "three quotes": ('{"a": """x "y"\nz"""}', {"a": 'x "y"\nz'}, "line breaks, quotes"),
    # unescaped quotes
    "quotes in a text": ('{"a": "say "hi" now", "b": 1}', {"a": 'say "hi" now', "b": 1}, "quotes"),
    "quotes at the end of a text": ('{"a": "say "hi""}', {"a": 'say "hi"'}, "quotes"),
    "quotes at the beginning of a text": ('{"a": ""hi" she said"}', {"a": '"hi" she said'}, "quotes"),
    "code in a text": ('{"a": "print("x", "y")", "b": 1}', {"a": 'print("x", "y")', "b": 1}, "quotes"),
    "markup in a text": ('{"a": "<p class="x">y</p>"}', {"a": '<p class="x">y</p>'}, "quotes"),
    # keys
    "bare keys": ('{a: 1, b_2: "x", c-d: [2]}', {"a": 1, "b_2": "x", "c-d": [2]}, "keys"),
    "keys of another alphabet": ('{größe: 1, 名: "x"}', {"größe": 1, "名": "x"}, "keys"),
    "equals signs and arrows": ('{"a"=1, "b" => 2}', {"a": 1, "b": 2}, "colons"),
    # comments
    "a comment of C": ('{"a": 1 /* one, two */, "b": 2}', {"a": 1, "b": 2}, "comments"),
    "a comment of C after single quotes": (
        "{'a': ['x' /* y */], 'b': 'z' /* w */}",
        {"a": ["x"], "b": "z"},
        "comments, quotes",
    ),
    "comments to the end of the line": ('{\n// first\n"a": 1, // two\n"b": 2\n}', {"a": 1, "b": 2}, "comments"),
    "a comment of Python": ('{"a": 1, # one\n"b": 2}', {"a": 1, "b": 2}, "comments"),
    # literals
    "words of Python": ("{'a': True, 'b': [None, False]}", {"a": True, "b": [None, False]}, "quotes, words"),
    "words of other languages": ('{"a": TRUE, "b": nil}', {"a": True, "b": None}, "words"),
    "a tuple": ('{"a": (1, 2)}', {"a": [1, 2]}, "brackets"),
    "a bare word": ('{"a": Paris, "b": New York}', {"a": "Paris", "b": "New York"}, "words"),
    "joined texts": ('{"a": "x" + "y"}', {"a": "xy"}, "joined strings"),
    # line breaks
    "line breaks in a text": ('{"a": "one\ntwo\n\tthree", "b": 1}', {"a": "one\ntwo\n\tthree", "b": 1}, "line breaks"),
    "line breaks of Windows": ('{"a": "one\r\ntwo"}', {"a": "one\r\ntwo"}, "line breaks"),
    "line breaks and quotes": ('{"a": "one\nsay "two" x"}', {"a": 'one\nsay "two" x'}, "line breaks, quotes"),
    # closers
    "a list that is not closed": ('{"a": [1, 2}', {"a": [1, 2]}, "brackets"),
    "an object that is not closed": ('{"a": [{"b": 1], "c": 2}', {"a": [{"b": 1}], "c": 2}, "brackets"),
    # more than one
    "everything": (
        "{a: 'x', // y\n'b': [True, None,], \"c\": \"d\ne\"}",
        {"a": "x", "b": [True, None], "c": "d\ne"},
        "commas, comments, keys, line breaks, quotes, words",
    ),
}


@folded
@each_wrapper
@pytest.mark.parametrize(("written", "meant", "repairs"), MENDED.values(), ids=MENDED)
def test_broken_arguments_are_parsed_and_their_repairs_reported(
    wrapper: str, written: str, meant: Json, repairs: str
) -> None:
    rescued = rescue(wrapper.replace("%s", written), NAMES)

    assert [(found.call.tool, found.call.args()) for found in rescued.calls] == [("save", meant)]
    assert rescued.calls[0].repairs == tuple(repairs.split(", "))
    assert (rescued.calls[0].open, rescued.broken) == (False, False)
    assert rescued.text == ("Saving it:" if wrapper.startswith("Saving") else "")


@folded
@pytest.mark.parametrize(("written", "meant", "repairs"), MENDED.values(), ids=MENDED)
def test_broken_arguments_of_a_native_call_are_repaired(written: str, meant: Json, repairs: str) -> None:
    mended = repair_arguments(f" {written}\n")

    assert (mended.text, mended.repairs) == (write(meant), tuple(repairs.split(", ")))


NOT_BROKEN: dict[str, tuple[str, Json]] = {
    "what only looks like a comment": ('{"a": "http://x", "b": "/* c */ # d"}', {"a": "http://x", "b": "/* c */ # d"}),
    "what only looks like a word": ('{"a": "True", "b": "None,]"}', {"a": "True", "b": "None,]"}),
    "apostrophes": ('{"a": "it\'s", "b\'": 1}', {"a": "it's", "b'": 1}),
    "quotes that are escaped": (r'{"a": "say \"hi\", \"b\": 1"}', {"a": 'say "hi", "b": 1'}),
}  # fmt: skip


@each_wrapper
@pytest.mark.parametrize(("written", "meant"), NOT_BROKEN.values(), ids=NOT_BROKEN)
def test_valid_arguments_are_not_repaired(wrapper: str, written: str, meant: Json) -> None:
    found = rescue(wrapper.replace("%s", written), NAMES).calls[0]

    assert (found.call.arguments, found.call.args(), found.repairs) == (written, meant, ())


@pytest.mark.parametrize(
    "wrapper",
    [
        '<tool_call>{"name": "save", "arguments": %s}</tool_call>',
        '[TOOL_CALLS][{"name": "save", "arguments": %s}]',
        '{"type": "function", "function": {"name": "save", "arguments": %s}}',
        '```json\n{"name": "save", "arguments": %s}\n```',
    ],
)
@pytest.mark.parametrize(
    ("inner", "meant", "repairs"),
    [
        ('{"a": "x\\ny"}', {"a": "x\ny"}, ()),
        ("", {}, ()),
        ('{"a": [1, 2,],}', {"a": [1, 2]}, ("commas", "encoded twice")),
        ("{'a': \"it's\", b: True}", {"a": "it's", "b": True}, ("encoded twice", "keys", "quotes", "words")),
        ('{"a": "x", "b"}', None, ()),
        ('{"a": "x', None, ()),
        ("save it", None, ()),
    ],
)
def test_arguments_encoded_twice_are_parsed_and_repaired(
    wrapper: str, inner: str, meant: Json, repairs: tuple[str, ...]
) -> None:
    rescued = rescue(wrapper.replace("%s", json.dumps(inner)), NAMES)

    assert [(found.call.args(), found.repairs) for found in rescued.calls] == (
        [] if meant is None else [(meant, repairs)]
    )


CUT: dict[str, tuple[str, Json]] = {
    "after a number": ('{"a": 1, "b": 2', {"a": 1, "b": 2}),
    "after a text": ('{"a": "x"', {"a": "x"}),
    "after a comma": ('{"a": "x",', {"a": "x"}),
    "after a bracket": ('{"a": [', {"a": []}),
    "in a list": ('{"a": [1, {"b": "x"}', {"a": [1, {"b": "x"}]}),
    "before everything": ("{", {}),
}


@folded
@pytest.mark.parametrize(
    "wrapper",
    [
        "[TOOL_CALLS]save[ARGS]%s",
        '<tool_call>{"name": "save", "arguments": %s',
        "<function=save>%s",
        '{"name": "save", "arguments": %s',
        '```json\n{"name": "save", "arguments": %s',
    ],
)
@pytest.mark.parametrize(("written", "meant"), CUT.values(), ids=CUT)
def test_a_call_cut_off_between_two_values_is_marked_open(wrapper: str, written: str, meant: Json) -> None:
    rescued = rescue(wrapper.replace("%s", written), NAMES)

    assert [(found.call.args(), found.open) for found in rescued.calls] == [(meant, True)]
    assert "brackets" in rescued.calls[0].repairs
    assert rescued.text == ""


GUESSES = {
    "a missing value": '{"a": }',
    "a missing value before others": '{"a": , "b": 1}',
    "a missing value after others": '{"a": 1, "b":}',
    "a missing value in a list": '{"a": [1, , ]: 2}',
    "a missing key": '{: 1}',
    "what is no number": '{"a": NaN, b: 1}',
    "what is not defined": '{"a": undefined, b: [1, ...]}',
    "a missing colon": '{"a" 1}',
    "a key alone": '{"a"}',
    "a key without a value": '{"a": "x", "b"}',
    "a bare key without a value": '{"a": "x", y}',
    "words": "{a b c d}",
    "dots": "{...}",
    "a place holder": '{"a": <value>}',
    "a key twice, once without a value": '{"a": "x", "a": }',
    "two numbers": '{"a": 1 2}',
    "two numbers in a list": '{"a": [1 2]}',
    "two colons": '{"a":: 1}',
    "two keys": '{"a": "b": 1}',
    "a text that is not closed": '{"a": "x}',
    "a text that is not closed before others": '{"a": "x, "b": 1}',
    "a text that is not closed in a list": '{"a": [1, 2, "x}',
    "a text that is not opened": '{"a": hello", "b": 1}',
    "an odd quote": '{"a": "5" wide", "b": 1}',
    "an odd apostrophe": "{'a': 'the dogs' tail', 'b': 1}",
    "JSON in a text": '{"a": "{"b": "x", "c": 1}"}',
    "brackets crossed": '{"a": {]}',
    "too large a number": '{"a": 1e999}',
}  # fmt: skip


@folded
@pytest.mark.parametrize("wrapper", MARKED.values(), ids=MARKED)
@pytest.mark.parametrize("written", GUESSES.values(), ids=GUESSES)
def test_ambiguous_json_in_markup_is_a_broken_call(wrapper: str, written: str) -> None:
    rescued = rescue(wrapper.replace("%s", written), NAMES)

    assert (rescued.calls, rescued.broken) == ((), True)


@folded
@pytest.mark.parametrize("wrapper", LOOSE.values(), ids=LOOSE)
@pytest.mark.parametrize("written", GUESSES.values(), ids=GUESSES)
def test_ambiguous_json_without_markup_stays_text(wrapper: str, written: str) -> None:
    text = wrapper.replace("%s", written)

    rescued = rescue(text, NAMES)

    assert (rescued.calls, rescued.broken, rescued.text) == ((), False, text)


@folded
@pytest.mark.parametrize("written", [*GUESSES.values(), *(cut for cut, _ in CUT.values()), "", "x", "[1]", "{} x"])
def test_ambiguous_arguments_are_not_repaired(written: str) -> None:
    mended = repair_arguments(written)

    assert (mended.text, mended.repairs) == (None, ())


@examples(80)
@given(arguments=OBJECTS, indent=st.sampled_from([None, 1]))
def test_strict_arguments_are_not_changed(arguments: dict[str, Json], indent: int | None) -> None:
    written = json.dumps(arguments, indent=indent)

    assert repair_arguments(written) == (written, (), False)


TEXTS_OF_SAID = st.text("ab ,.:(){}[]\n'<>/#é", max_size=10)


@examples(300)
@given(
    members=st.dictionaries(st.sampled_from(["path", "text", "mode"]), TEXTS_OF_SAID, min_size=1),
    quoted=st.sampled_from(['print("x")', 'a "b" c', 'f("a", "b")', '"x"', 'd = {"k": "v"}', '5" wide', '"']),
    place=st.integers(0, 2),
)
def test_strings_with_unescaped_quotes_are_parsed_as_intended_or_rejected(
    members: dict[str, str], quoted: str, place: int
) -> None:
    keys = list(members)
    meant = members | {keys[place % len(keys)]: f"{members[keys[place % len(keys)]]} {quoted} x"}
    written = write(meant).replace('\\"', '"')

    mended = repair_arguments(written)

    assert mended.text is None or json.loads(mended.text) == meant


SHREDS = st.lists(
    st.sampled_from([*"{}[]()\"':,;=#\\\n`“”", '": "', '", "', "a", "1", "-2.5", "true", "None", "//", "/*", "*/"]),
    max_size=20,
).map("".join)  # fmt: skip


@examples(1000)
@given(rest=SHREDS)
def test_every_repaired_text_is_an_object(rest: str) -> None:
    mended = repair_arguments("{" + rest)

    assert mended.text is None or read_object(mended.text) is not None


@pytest.mark.parametrize("end", ["", "<|", '<|"|>O', '<|"|>Oslo<|"|>,<|'])
def test_a_list_that_is_cut_inside_a_quote_token_is_open(end: str) -> None:
    found = rescue(f"<|tool_call>call:plan{{stops:[{end}", ("plan",))

    assert not any(not call.open for call in found.calls)
