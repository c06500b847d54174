"""Any schema is simplified to the keywords that every model server supports."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from forge_proxy.core.guardrails.schema.compiled import satisfies
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.simplify_schema import simplify_schema
from tests.core.guardrails.schemas import DEFINITIONS, SCHEMAS
from tests.properties import VALUES, examples

TEXT = {"type": "string"}


def of(value: Any, **beside: Any) -> Any:
    """What becomes of one parameter."""
    return simplify_schema({"type": "object", "properties": {"p": value}, **beside})["properties"]["p"]  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]


@pytest.mark.parametrize(
    ("value", "projected"),
    [
        (
            {"type": "string", "pattern": "^(?=x)", "format": "date", "maxLength": 10000, "description": "d"},
            {"type": "string", "description": "d"},
        ),
        ({"type": "integer", "minimum": 0, "multipleOf": 2, "default": 4, "title": "T"}, {"type": "integer"}),
        ({"type": ["string", "null"], "description": None}, TEXT),
        ({"type": ["null"]}, {"type": "null"}),
        ({"type": ["string", "integer"]}, {"anyOf": [TEXT, {"type": "integer"}]}),
        ({"type": "any"}, {}),
        (True, {}),
        (False, {}),
        ({}, {}),
        ({"type": "array", "items": True}, {"type": "array"}),
        ({"type": "array", "items": [TEXT], "maxItems": 3}, {"type": "array"}),
        ({"type": "array", "items": {"type": "string", "pattern": "x"}}, {"type": "array", "items": TEXT}),
        ({"enum": ["a", None, 1]}, {"enum": ["a", 1]}),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "enum": []}, TEXT),
        ({"enum": [{"a": 1}, "a"]}, {}),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"const": {"a": 1}}, {}),
        ({"oneOf": [TEXT, {"type": "object", "properties": {}}]}, {"anyOf": [TEXT, {"type": "object"}]}),
        ({"anyOf": []}, {}),
        ({"not": TEXT, "if": {}, "then": {}}, {}),
        (
            {"properties": {"a": TEXT}, "required": ["a", "b", 3]},
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
        ),
        ({"type": "object", "properties": None, "required": "a"}, {"type": "object"}),
        ({"type": "object", "patternProperties": {"x": TEXT}, "additionalProperties": TEXT}, {"type": "object"}),
        ({"$ref": "#/$defs/T", "description": "d"}, {"type": "string", "description": "d"}),
        ({"$ref": "#/$defs/Alias"}, TEXT),
        ({"$ref": "#/$defs/Loop"}, {}),
        ({"$ref": "#/$defs/a~1b"}, {"type": "integer"}),
        ({"$ref": "#/$defs/Tree"}, {"type": "object", "properties": {"next": {}}}),
        ({"$ref": "#/$defs/None"}, {}),
        ({"$ref": "https://example.com/s.json", "description": "d"}, {"description": "d"}),
        ({"$ref": 3, "type": "string"}, TEXT),
        (
            {"allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"$ref": "#/$defs/Tree"}], "description": "d"},
            {"type": "object", "properties": {"a": TEXT, "next": {}}, "required": ["a"], "description": "d"},
        ),
        ({"allOf": [TEXT]}, TEXT),
    ],
)
def test_a_parameter_keeps_the_keywords_that_every_server_supports(value: Json, projected: Json) -> None:
    definitions = {
        "T": TEXT,
        "Alias": {"$ref": "#/$defs/T"},
        "Loop": {"$ref": "#/$defs/Loop"},
        "a/b": {"type": "integer"},
        "Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}},
    }

    assert of(value, **{"$defs": definitions}) == projected


@pytest.mark.parametrize(
    "schema",
    [True, False, {}, {"type": "array"}, {"$ref": "#"}, {"type": "object", "properties": []}, {"anyOf": [True]}],
)
def test_the_simplified_schema_is_always_an_object(schema: Any) -> None:
    assert simplify_schema(schema) == {"type": "object"}


def test_deep_and_large_schemas_are_truncated() -> None:
    nested: dict[str, Any] = TEXT
    for _ in range(30):
        nested = {"type": "object", "properties": {"a": nested}}
    deep = simplify_schema(nested)
    doubling: dict[str, Any] = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(40)}
    wide = simplify_schema({"type": "object", "properties": {"p": {"$ref": "#/$defs/D0"}}, "$defs": doubling})

    assert json.dumps(deep).count("properties") == 11
    assert len(json.dumps(wide)) < 100_000


@examples(200)
@given(schema=SCHEMAS)
def test_simplifying_a_simplified_schema_changes_nothing(schema: Any) -> None:
    projected = simplify_schema({"type": "object", "properties": {"p": schema}, "$defs": DEFINITIONS})

    assert simplify_schema(projected) == projected
    assert "$ref" not in json.dumps(projected)
    assert satisfies(projected, {})


@examples(200)
@given(value=VALUES)
def test_any_value_in_place_of_a_schema_is_simplified(value: Json) -> None:
    assert satisfies(simplify_schema({"type": "object", "properties": {"p": value}}), {})
