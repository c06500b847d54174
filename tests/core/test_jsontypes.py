"""Strict JSON: what is accepted, what is rejected, and round trips."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json, is_integer, is_list, is_object, kind_of, read_object, read_value, write
from tests.properties import OBJECTS, TEXTS, examples


@examples(150)
@given(value=OBJECTS, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_any_object_survives_a_round_trip(value: dict[str, Json], ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    read = read_object(f" \r\n\t{text}\n ")

    assert read == value
    assert read_object(write(read)) == value


@examples(150)
@given(text=TEXTS | st.text(alphabet='{}[]":,\\u0d8 1e+-.tfn\n', max_size=30))
def test_reading_any_text_raises_no_error(text: str) -> None:
    read = read_object(text)

    assert read is None or read == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[]",
        "null",
        '"{}"',
        "{} {}",
        "{}x",
        "x{}",
        "\u00a0{}",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": 01}',
        '{"a": "\n"}',
        r'{"a": "\ud83d"}',
        r'{"\udc00": 1}',
        r'{"a": "\ude00\ud83d"}',
        '{"a":' * 8000,
        "[" * 8000,
        '{"a":' * 8000 + "1" + "}" * 8000,
        '{"a": ' + "1" * 5000 + "}",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_anything_but_a_strict_json_object_is_none(text: str) -> None:
    assert read_object(text) is None


def test_a_surrogate_pair_becomes_one_character() -> None:
    assert read_object(r'{"\ud83d\ude00": "\uD83D\uDE00\\ud83d"}') == {"😀": "😀\\ud83d"}


def test_a_value_inside_a_text_is_read_up_to_its_end() -> None:
    assert read_value('x = [1, {"a": 2}], y', 4) == ([1, {"a": 2}], 17)
    assert read_value("x = ?", 4) is None
    assert read_value("x", 9) is None


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (0, "integer"),
        (0.0, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_types_have_the_names_of_json_schema(value: Json, kind: str) -> None:
    assert kind_of(value) == kind
    assert is_integer(value) == (kind == "integer")
    assert is_list(value) == (kind == "array")
    assert is_object(value) == (kind == "object")
