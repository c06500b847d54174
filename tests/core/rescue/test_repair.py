"""The last resort for broken objects: what it repairs, and what it rejects."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json, write
from forge_proxy.core.rescue.readers.repair import repair_object
from tests.folding import folded
from tests.properties import OBJECTS, examples

MENDED = [
    ("unescaped quotes", '{"code": "print("hi")", "x": 1}', {"code": 'print("hi")', "x": 1}),
    ("quotes at the end of a string", '{"a": "", "b": "say "hi""}', {"a": "", "b": 'say "hi"'}),
    ("quotes and commas", '{"q": "SELECT "id", "name" FROM t", "n": 3}', {"q": 'SELECT "id", "name" FROM t', "n": 3}),
    ("markup with attributes", '{"html": "<a href="x">y</a>"}', {"html": '<a href="x">y</a>'}),
    ("an object in a string", '{"c": "x = {"k": "v"}", "p": "q"}', {"c": 'x = {"k": "v"}', "p": "q"}),
    ("quotes in a list", '{"a": ["say "hi" ok", "b"]}', {"a": ['say "hi" ok', "b"]}),
    ("line breaks beside them", '{"a": "x\ny "z" w"}', {"a": 'x\ny "z" w'}),
    ("a line break at the end", '{"a": "l1\\nsay "hi"\\n"}', {"a": 'l1\nsay "hi"\n'}),
    ("escapes beside them", r'{"a": "x\/y \f \d \u00e9 \ud83d\ude00 "hi" z"}', {"a": 'x/y \f \\d é 😀 "hi" z'}),
    ("a path and quotes", r'{"a": "C:\Work "x" y"}', {"a": 'C:\\Work "x" y'}),
    ("backslashes before quotes", r'{"a": "\\\"q\\\" say "x" \\"}', {"a": '\\"q\\" say "x" \\'}),
    ("no commas", '{"a": "x" "b": [{"c": 1} {"d": 2}]}', {"a": "x", "b": [{"c": 1}, {"d": 2}]}),
    ("too many commas", '{"a": "x",, "b": 1,}', {"a": "x", "b": 1}),
    ("apostrophes as quotes", "{'a': 'it's ok', 'b': True}", {"a": "it's ok", "b": True}),
    ("apostrophes and quotes", "{'a': 'don't say 'no'', 'b': None}", {"a": "don't say 'no'", "b": None}),
    ("curly quotes", '{“a”: “x”, "b": "say "hi""}', {"a": "x", "b": 'say "hi"'}),
    ("bare keys and words", "{a: 1, b: New York, c-d: false}", {"a": 1, "b": "New York", "c-d": False}),
    ("comments", '{"a": 1 /* c, d */, // e, f\n "b": "say "x" y", # g\n}', {"a": 1, "b": 'say "x" y'}),
    ("an open list", '{"a": [1, 2, "b": 3}', {"a": [1, 2], "b": 3}),
    ("closed too often", '{"a": "say "hi" x"}}', {"a": 'say "hi" x'}),
]


@pytest.mark.parametrize(("text", "meant"), [case[1:] for case in MENDED], ids=[case[0] for case in MENDED])
def test_an_object_is_repaired_from_its_own_text(text: str, meant: Json) -> None:
    repaired = repair_object(text)

    assert repaired is not None
    assert json.loads(repaired) == meant


def test_numbers_are_kept_as_written() -> None:
    repaired = repair_object('{a: 1.0, b: 1e5, c: 0.10000000000000000555, d: -123456789012345678901234567890, e: "x"}')

    assert (
        repaired == '{"a": 1.0, "b": 1e5, "c": 0.10000000000000000555, "d": -123456789012345678901234567890, "e": "x"}'
    )


REFUSED = {
    "a missing value": '{"a": }',
    "a missing value before others": '{"a": , "b": 1}',
    "no members": "{a b c d}",
    "a key without a value": '{"a": "x", "b"}',
    "a number cut off": '{"a": 1',
    "a list cut off": '{"a": [1, 2, ',
    "a string cut off": '{"a": "hello',
    "a string cut off, brackets closed": '{"a": "hello}',
    "a string cut off at a quote in it": '{"a": "print("',
    "a bracket cut off": '{"code": "x", "opts": {"b": {}',
    "a string that is not closed": '{"a": "hello, "b": 1}',
    "a string that is not opened": '{"a": hello", "b": 1}',
    "text after it": '{"a": "say "hi" x"} trailing',
    "two values": '{"a": 1 2}',
    "two words": '{"a": true false}',
    "two objects where one is wanted": '{"args": {"a": 1}, {"b": 2}}',
    "part of a literal": '{"a": tru}',
    "no number": '{"a": NaN, b: 1}',
    "numbers of other languages": '{"a": 1_000, b: 1}',
    "a path without quotes": '{"path": /etc/hosts}',
    "a dash and a word": '{"a": -x}',
    "a variable": '{"a": $x}',
    "half of a surrogate pair": r'{"a": "\ud83d "x" y"}',
    # Where such a string ends is anybody's guess.
    "JSON in a string": '{"content": "{"name": "x", "v": 1}", "path": "p"}',
    "JSON in a string, at the end": '{"content": "{"name": "x", "v": "1"}"}',
    "numbers in JSON in a string": '{"content": "{"n": 1, "v": "1"}"}',
    "an odd quote": '{"a": "5" wide", "b": 1}',
    "an odd apostrophe": "{'a': 'the dogs' tail', 'b': 1}",
    "strings put together": '{"a": "x" + "y"}',
    "quotes in a comment": '{"a": "b" // say "x"\n}',
    "code that looks like a comment": '{"a": "s = f(\\"b")  # \\"c""\n}',
    "a member that follows without a comma": '{"a": "f("b")" mode: "c"}',
    "an item that follows without a comma": '{"a": ["f("b")" "c"]}',
    "three quotes at the end": '{"a": ["f("x") """, "b"]}',
    "quotes in a key": '{"a "b" c": 1}',
    "equal keys": '{a: 1, "b": 2, a: 3}',
    "a word": "word",
    "a list": "[1, 2]",
    "nothing": "",
    "an open bracket": "{",
    "depth": '{"a":[' * 5000,
    "length": '{"a": "' + "x" * 1_000_000 + '"}',
}


@folded
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_an_ambiguous_object_is_not_repaired(text: str) -> None:
    assert repair_object(text) is None


@examples(300)
@given(OBJECTS)
def test_strict_json_is_not_changed(value: dict[str, Json]) -> None:
    text = write(value)

    assert repair_object(text) == text


PIECES = st.sampled_from(
    [
        *'{}[]":,', *"{}[]\"'#;()`$“”\n\\\ud800\x00", "a", "b1", "Paris", "12", "-3.5", "true", "null", "é", " ",
        '": "', '", "', '"}', "\\n", '\\"', "\\u00e9", "//", "/*", "*/",
    ]
)  # fmt: skip
BROKEN = st.lists(PIECES, max_size=24).map("".join)


@examples(2000)
@given(BROKEN)
def test_no_text_raises_an_error_and_every_result_is_an_object(rest: str) -> None:
    repaired = repair_object("{" + rest)

    assert repaired is None or isinstance(json.loads(repaired), dict)


PLAIN = st.lists(
    st.sampled_from([*'{}[]":,', *"{}[]\"',", '": "', '", "', '"}', " ", "a", "b", "7", "-", "x."]), max_size=24
)


@examples(3000)
@given(PLAIN.map("".join))
def test_no_content_is_invented_or_dropped(rest: str) -> None:
    repaired = repair_object("{" + rest)

    if repaired is not None and repaired != "{" + rest:  # strict JSON is not changed, equal keys included
        assert re.findall(r"[\w.-]", repaired) == re.findall(r"[\w.-]", rest)


@examples(500)
@given(
    st.dictionaries(st.sampled_from(["path", "content", "mode"]), st.text("ab ,.(){}\n'", max_size=8), min_size=1),
    st.sampled_from(['print("x")', 'a "b" c', 'f("a", "b")', '"x"', 'd = {"k": "v"}', '5" wide']),
    st.integers(0, 2),
)
def test_an_object_with_unescaped_quotes_is_repaired_as_intended_or_rejected(
    members: dict[str, str], quoted: str, at: int
) -> None:
    values = list(members.values())
    place = at % len(values)
    values[place] = f"{values[place]}{quoted}{values[place]}"
    meant = dict(zip(members, values, strict=True))
    text = write(meant).replace('\\"', '"')

    repaired = repair_object(text)

    assert repaired is None or json.loads(repaired) == meant
