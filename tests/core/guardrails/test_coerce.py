"""A value gets the type its schema asks for where nothing is lost by it, and no text is ever made into another."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.guardrails.coerce import coerce_args, coerce_value, read_arguments
from forge_proxy.core.guardrails.schema import faults_in
from forge_proxy.core.jsontypes import Json, JsonObject
from tests.properties import OBJECTS, TEXTS, VALUES, examples

TYPES = ("null", "boolean", "integer", "number", "array", "object")
WORDS = st.sampled_from(
    ["3", " 3\n", "-0", "3.5", "1e2", "true", "True", "False", "None", "null", "[1]", "{}", "1e999"]
)
WRITTEN = WORDS | TEXTS | VALUES.map(json.dumps)
TYPE_LISTS = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True)


@pytest.mark.parametrize(
    ("said", "types", "meant"),
    [
        ("3", "integer", 3),
        ("-3", ["integer", "null"], -3),
        (" 3\n", "integer", 3),
        ("3", "number", 3),
        ("3.50", "number", 3.5),
        ("123456789012345678901234567890", "integer", 123456789012345678901234567890),
        ("true", "boolean", True),
        ("False", "boolean", False),
        ("null", ["integer", "null"], None),
        ("None", "null", None),
        ('["a", "b"]', "array", ["a", "b"]),
        ('{"a": [1]}', "object", {"a": [1]}),
    ],
)
def test_what_was_written_as_a_text_gets_its_type(said: str, types: Json, meant: Json) -> None:
    coerced = coerce_value({"type": types}, said)

    assert coerced == meant
    assert type(coerced) is type(meant)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("3", {"type": "string"}),
        ("3", {"type": ["integer", "string"]}),
        ("null", {"type": ["string", "null"]}),
        ("3", {}),
        ("3", {"enum": [3]}),
        ("3", {"anyOf": [{"type": "integer"}]}),
        ("3", True),
        ("3", None),
        ("3", {"type": 7}),
        ("3.0", {"type": "integer"}),
        ("3.7", {"type": "integer"}),
        ("3 days", {"type": "integer"}),
        ("three", {"type": "integer"}),
        ("1e999", {"type": "number"}),
        ("NaN", {"type": "number"}),
        ("0x10", {"type": "integer"}),
        ("007", {"type": "integer"}),
        ("", {"type": "integer"}),
        ("yes", {"type": "boolean"}),
        ("1", {"type": "boolean"}),
        ("TRUE", {"type": "boolean"}),
        ('"3"', {"type": "integer"}),
        ("a, b", {"type": "array"}),
        ("['a']", {"type": "array"}),
        ('["a"', {"type": "array"}),
        ("{}", {"type": "array"}),
        (3, {"type": "string"}),
        (3.0, {"type": "integer"}),
        (True, {"type": "integer"}),
        (["3"], {"type": "integer"}),
    ],
)
def test_what_is_no_plain_spelling_of_the_type_stays(value: Json, schema: Json) -> None:
    assert coerce_value(schema, value) is value


@examples(300)
@given(value=WRITTEN | VALUES, types=TYPE_LISTS, place=st.integers(0, 3))
def test_a_value_whose_schema_allows_a_text_is_never_touched(value: Json, types: list[str], place: int) -> None:
    several: list[Json] = [*types[:place], "string", *types[place:]]

    assert coerce_value({"type": several}, value) is value
    assert coerce_value({"type": "string"}, value) is value


@examples(400)
@given(value=WRITTEN | VALUES, types=TYPE_LISTS)
def test_what_is_changed_was_a_text_that_says_just_that_and_fits_its_schema(value: Json, types: list[str]) -> None:
    listed: list[Json] = [*types]
    schema: JsonObject = {"type": listed}

    coerced = coerce_value(schema, value)

    if coerced is not value:
        assert isinstance(value, str)
        python = {"True": "true", "False": "false", "None": "null"}
        said: Json = json.loads(python.get(value.strip(), value))
        assert (coerced, type(coerced)) == (said, type(said))
        assert faults_in({"properties": {"a": schema}}, {"a": coerced}) == ()


def test_arguments_are_mended_one_by_one_and_it_is_said_which() -> None:
    schema: JsonObject = {
        "properties": {"days": {"type": "integer"}, "city": {"type": "string"}, "on": {"type": "boolean"}}
    }

    mended, changes = coerce_args(schema, {"days": "3", "city": "7", "on": True, "more": "8"})

    assert mended == {"days": 3, "city": "7", "on": True, "more": "8"}
    assert changes == ("days: string → integer",)


@pytest.mark.parametrize("schema", [True, False, {}, {"properties": 3}, {"properties": {"a": 3}}, {"type": "integer"}])
def test_without_a_schema_for_a_value_it_stays(schema: JsonObject | bool) -> None:
    assert coerce_args(schema, {"a": "3"}) == ({"a": "3"}, ())


@examples(100)
@given(arguments=OBJECTS)
def test_arguments_encoded_twice_are_the_arguments(arguments: dict[str, Json]) -> None:
    text = json.dumps(arguments)

    assert read_arguments(text) == arguments
    assert read_arguments(f" {json.dumps(text)} ") == arguments


@pytest.mark.parametrize("text", ["", "[]", "3", '"3"', '"{"', "{", '"{}" {}', json.dumps(json.dumps("{}"))])
def test_what_is_no_object_even_inside_a_text_is_none(text: str) -> None:
    assert read_arguments(text) is None
