"""Any schema a caller sends: what it forbids is said in words, and a bad one never breaks a request."""

from __future__ import annotations

import pytest
from hypothesis import given

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.schema import faults_in, surplus_in, validator
from forge_proxy.core.jsontypes import Json, JsonObject
from tests.properties import OBJECTS, VALUES, examples

WEATHER: JsonObject = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F"]},
        "when": {"type": ["string", "null"]},
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number", "maximum": 90}},
            "required": ["lat"],
            "additionalProperties": False,
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("args", "faults"),
    [
        ({"city": "Paris"}, ()),
        ({"city": "Paris", "days": 3.0, "when": None, "unit": "C", "place": {"lat": 1}, "tags": []}, ()),
        ({}, ("city: required, missing",)),
        ({"city": 7}, ("city: expected string, got 7",)),
        ({"city": True}, ("city: expected string, got true",)),
        ({"city": ["Paris"]}, ("city: expected string, got array",)),
        ({"city": None}, ("city: expected string, got null",)),
        ({"city": "Paris", "days": "3"}, ('days: expected integer, got "3"',)),
        ({"city": "Paris", "days": 10**30 + 0.5}, ()),
        ({"city": "Paris", "unit": "K"}, ('unit: expected one of ["C", "F"]',)),
        ({"city": "Paris", "when": 7}, ("when: expected null or string, got 7",)),
        ({"city": "Paris", "place": {}}, ("place.lat: required, missing",)),
        ({"city": "Paris", "place": {"lat": "north"}}, ('place.lat: expected number, got "north"',)),
        ({"city": "Paris", "place": {"lat": 1, "lon": 2, "x": 3}}, ("place.lon, place.x: no such parameter",)),
        ({"city": "Paris", "tags": ["a", 1]}, ("tags.1: expected string, got 1",)),
        ({"city": "Paris", "a": 1, "b": 2}, ("a, b: no such parameter",)),
        ({"city": "Paris", "days": "x" * 99}, (f'days: expected integer, got "{"x" * 59}',)),
    ],
)
def test_what_is_wrong_is_said_with_its_path(args: dict[str, Json], faults: tuple[str, ...]) -> None:
    assert faults_in(WEATHER, args) == faults


def test_each_thing_that_is_wrong_is_said_up_to_eight() -> None:
    schema: JsonObject = {"properties": {f"p{n}": {"type": "integer"} for n in range(20)}}

    assert len(faults_in(schema, {"p0": "", "p1": "", "p2": 3})) == 2
    assert len(faults_in(schema, {f"p{n}": "" for n in range(20)})) == 8


def test_a_rule_without_words_of_ours_keeps_the_validators_and_is_cut() -> None:
    (fault,) = faults_in({"properties": {"city": {"const": "x" * 1000}}}, {"city": "Paris"})

    assert fault.startswith("city: ")
    assert len(fault) == len("city: ") + 200


@pytest.mark.parametrize(
    ("schema", "args", "surplus"),
    [
        (WEATHER, {"city": "Paris", "a": 1, "b": 2}, ("a", "b")),
        (WEATHER, {"city": "Paris", "place": {"lat": 1, "lon": 2}}, ()),
        (WEATHER, {"city": "Paris"}, ()),
        ({"properties": {"city": {}}}, {"city": "Paris", "a": 1}, ()),
        (True, {"a": 1}, ()),
    ],
)
def test_only_what_the_schema_forbids_at_the_top_is_surplus(
    schema: Schema, args: dict[str, Json], surplus: tuple[str, ...]
) -> None:
    assert surplus_in(schema, args) == surplus


def _deep(levels: int) -> JsonObject:
    return {"properties": {"a": _deep(levels - 1)}} if levels else {"type": "object"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": 5},
        {"type": ["string", "nonsense"]},
        {"properties": 5},
        {"properties": {"a": 5}},
        {"required": "a"},
        {"multipleOf": 0},
        {"allOf": []},
        {"$ref": "#/nowhere"},
        {"$ref": "#/definitions/a", "definitions": {}},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$schema": "http://127.0.0.1:9/draft"},
        {"$id": "::::"},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"maximum": 10**40}}},
        _deep(300),
    ],
    ids=lambda schema: str(schema)[:40],
)
def test_a_schema_that_cannot_be_compiled_allows_any_object(schema: JsonObject) -> None:
    assert validator(schema) is None
    assert faults_in(schema, {"a": "b"}) == ()
    assert surplus_in(schema, {"a": "b"}) == ()


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (True, {"a": 1}, None),
        (False, None, {}),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": None}, {"a": 1}),
        ({"properties": {"a": {"items": True}}}, {"a": [1]}, None),
        ({"properties": {"a": False}}, {}, {"a": 1}),
        ({"properties": {"a": {"enum": [{"b": 1}, None]}}}, {"a": {"b": 1}}, {"a": {"b": 2}}),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}, {"a": "b"}, {"a": 1}),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"required": ["b"]}}}, {"b": 1}, {}),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["b"]}, {"b": 1, "a": {"b": 1}}, {"b": 1, "a": {}}),
        ({"properties": {"a": {"pattern": "^(?!x)"}}}, {"a": "y"}, {"a": "x"}),
        ({"properties": {"a": {"pattern": "^[a-z]+$"}}}, {"a": "y"}, {"a": "Y"}),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, {"c": 1}),
        ({"properties": {"a": {"maxLength": 10000}}}, {"a": "y"}, None),
        ({"properties": {"a": {"type": "string", "title": None}}, "description": None}, {"a": "y"}, {"a": 1}),
        ({"properties": {"a": None}, "additionalProperties": False}, {"a": 1}, {"b": 1}),
        ({"properties": {"a": {"enum": [None, 1], "const": None, "items": None}}}, {"a": None}, {"a": 1}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_any_valid_schema_is_used(schema: Schema, good: dict[str, Json] | None, bad: dict[str, Json] | None) -> None:
    assert validator(schema) is not None
    assert good is None or faults_in(schema, good) == ()
    assert bad is None or len(faults_in(schema, bad)) == 1


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(?!b)(a+)+$"])
def test_a_pattern_that_explodes_does_not(pattern: str) -> None:
    schema: JsonObject = {"properties": {"a": {"pattern": pattern}}}

    assert len(faults_in(schema, {"a": "a" * 5000 + "!"})) == 1


@pytest.mark.parametrize("args", [{"a": "\ud83d"}, {"\ud83d": "b"}, {"a": _deep(400)}], ids=["half", "key", "deep"])
def test_arguments_that_cannot_be_checked_are_faulty(args: dict[str, Json]) -> None:
    schema: JsonObject = {"properties": {"a": {"type": "integer"}}, "additionalProperties": False}

    (fault,) = faults_in(schema, args)

    assert fault.startswith("arguments: cannot be checked: ")
    assert surplus_in(schema, args) == ()


@examples(150)
@given(schema=OBJECTS, value=VALUES)
def test_no_schema_makes_the_check_raise(schema: dict[str, Json], value: Json) -> None:
    whole: JsonObject = {**schema, "properties": {"a": schema, "b": value if isinstance(value, dict) else True}}

    assert isinstance(faults_in(whole, {"a": value, "b": value}), tuple)
    assert isinstance(surplus_in(whole, {"a": value, "b": value}), tuple)
