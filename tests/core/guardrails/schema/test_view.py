"""The types that a schema allows, and the subschemas of the parts of a value."""

from __future__ import annotations

import pytest
from hypothesis import given

from forge_proxy.core.guardrails.schema.compiled import satisfies
from forge_proxy.core.guardrails.schema.view import KINDS, SchemaView, kind_in_schema
from forge_proxy.core.jsontypes import Json, JsonObject
from tests.core.guardrails.schemas import DEFINITIONS, SCHEMAS
from tests.properties import OBJECTS, VALUES, examples

ROOT: JsonObject = {
    "$defs": {
        **DEFINITIONS,
        "a/b": {"type": "null"},
        "loop": {"$ref": "#/$defs/pool"},
        "pool": {"$ref": "#/$defs/loop"},
    },
    "list": [{"type": "array"}],
}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (True, KINDS),
        (None, KINDS),
        ({}, KINDS),
        ({"type": "nonsense"}, KINDS),
        (False, set()),
        ({"type": "integer"}, {"integer"}),
        ({"type": "number"}, {"integer", "number"}),
        ({"type": ["string", "null", 3]}, {"string", "null"}),
        ({"enum": ["a", 3.0, None]}, {"string", "integer", "null"}),
        ({"const": {}}, {"object"}),
        ({"type": ["string", "integer"], "enum": [1, 2]}, {"integer"}),
        ({"$ref": "#/$defs/text"}, {"string"}),
        ({"$ref": "#/$defs/a~1b"}, {"null"}),
        ({"$ref": "#/%24defs/text"}, {"string"}),
        ({"$ref": "#/list/0"}, {"array"}),
        ({"$ref": "#/list/9"}, KINDS),
        ({"$ref": "#/nowhere"}, KINDS),
        ({"$ref": "#name"}, KINDS),
        ({"$ref": "https://example.com/a"}, KINDS),
        ({"$ref": "#/$defs/loop"}, KINDS),
        ({"$ref": "#/$defs/again"}, KINDS),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}),
        ({"oneOf": [{"type": "integer"}, True]}, KINDS),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, {"integer"}),
        ({"type": ["string", "array"], "anyOf": [{"enum": ["a"]}, {"type": "object"}]}, {"string"}),
    ],
)
def test_a_schema_allows_the_expected_types(schema: Json, kinds: set[str]) -> None:
    assert SchemaView(ROOT).kinds((schema,)) == kinds


def test_a_chain_of_alternatives_is_followed_to_a_limit() -> None:
    links: dict[str, Json] = {}
    for number in range(5000):
        following: JsonObject = {"$ref": f"#/$defs/d{number + 1}"}
        links[f"d{number}"] = {"anyOf": [following, {**following}]}

    assert SchemaView({"$defs": links}).kinds(({"$ref": "#/$defs/d0"},)) == KINDS


def test_a_view_combines_all_schemas_of_a_value() -> None:
    schema: JsonObject = {
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "allOf": [{"properties": {"a": {"minimum": 3}, "b": True}, "additionalProperties": False}],
        "patternProperties": {"^x": {"type": "null"}},
        "$ref": "#/$defs/tree",
    }

    view = SchemaView(ROOT).view((schema,))

    assert {*view.known} == {"a", "n", "inner", "b"}
    assert view.required == {"a", "n"}
    assert view.closed
    assert (view.describes("b"), view.describes("xy"), view.describes("y")) == (True, True, False)
    assert view.property("a") == ({"type": "integer"}, {"minimum": 3})
    assert view.property("xy") == ({"type": "null"}, False)


def test_each_combination_of_alternatives_is_a_view() -> None:
    schema: JsonObject = {
        "anyOf": [{"title": "a"}, {"oneOf": [{"title": "b"}, {"title": "c"}]}],
        "oneOf": [{"title": "d"}, {"title": "e"}],
    }
    shape = SchemaView(schema)
    view = shape.view((schema,))

    titles = {"".join(sorted(str(face.get("title", "")) for face in choice.faces)) for choice in shape.choices(view)}

    assert titles == {"ad", "ae", "bd", "be", "cd", "ce"}
    assert {str(face.get("title", "")) for face in shape.flat(view).faces} == {"", "a", "b", "c", "d", "e"}


@examples(300)
@given(schema=SCHEMAS, value=VALUES)
def test_a_valid_value_has_an_allowed_type(schema: Json, value: Json) -> None:
    whole: JsonObject = {"properties": {"a": schema}, "$defs": DEFINITIONS}

    if satisfies(whole, {"a": value}):
        assert kind_in_schema(value) in SchemaView(whole).kinds((schema,))


@examples(200)
@given(schema=OBJECTS, value=VALUES)
def test_an_invalid_schema_raises_no_error(schema: dict[str, Json], value: Json) -> None:
    whole: JsonObject = {
        "$ref": value,
        **schema,
        "items": value,
        "properties": value,
        "anyOf": [value],
        "required": value,
    }
    shape = SchemaView(whole)
    view = shape.flat(shape.view((whole, value)))

    assert shape.kinds((whole, value)) <= KINDS
    assert isinstance(view.property("a") + view.item(0), tuple)
    assert isinstance(shape.constants(view), set)
    assert (view.closed, view.describes("")) in {(a, b) for a in (True, False) for b in (True, False)}
