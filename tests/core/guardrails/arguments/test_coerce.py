"""Values are coerced to their schema if no information is lost; valid strings are never changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.guardrails.arguments.coerce import coerce_args, read_arguments
from forge_proxy.core.guardrails.schema.compiled import CompiledSchema, satisfies
from forge_proxy.core.jsontypes import Json, JsonObject
from tests.core.guardrails.schemas import DEFINITIONS, SCHEMAS, VALUES_NEAR, WRITTEN
from tests.folding import folded
from tests.properties import OBJECTS, VALUES, examples


def coerced(schema: Json, value: Json) -> Json:
    """What becomes of one parameter."""
    args = {"a": value}
    return coerce_args({"properties": {"a": schema}, "$defs": DEFINITIONS}, args)[0]["a"]


STRINGS: JsonObject = {"type": "array", "items": {"type": "string"}}


@folded
@pytest.mark.parametrize(
    ("said", "schema", "meant"),
    [
        ("3", {"type": "integer"}, 3),
        ("-3", {"type": ["integer", "null"]}, -3),
        (" 3\n", {"type": "integer"}, 3),
        ("3", {"type": "number"}, 3),
        ("3.50", {"type": "number"}, 3.5),
        ("3.0", {"type": "number"}, 3.0),
        ("3.0", {"type": "integer"}, 3),
        ("1e2", {"type": "integer"}, 100),
        ("+3", {"type": "integer"}, 3),
        ("0x10", {"type": "integer"}, 16),
        ("-0xff", {"type": "number"}, -255),
        ("1_000", {"type": "integer"}, 1000),
        (".5", {"type": "number"}, 0.5),
        ("5.", {"type": "number"}, 5.0),
        ("123456789012345678901234567890", {"type": "integer"}, 123456789012345678901234567890),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("null", {"type": ["integer", "null"]}, None),
        ("None", {"type": "null"}, None),
        ('["a", "b"]', {"type": "array"}, ["a", "b"]),
        ('{"a": [1]}', {"type": "object"}, {"a": [1]}),
        ("['a', \"it's\", True]", {"type": "array"}, ["a", "it's", True]),
        ("""{'a': 'it\\'s "b"'}""", {"type": "object"}, {"a": 'it\'s "b"'}),
        ("3", {"enum": [3, 4]}, 3),
        ("3", {"const": 3}, 3),
        ("3", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3),
        ("3", {"allOf": [{"type": ["integer", "string"]}, {"type": "number"}]}, 3),
        ("3", {"$ref": "#/$defs/count"}, 3),
        (7, {"type": "string"}, "7"),
        (7, {"type": ["string", "null"]}, "7"),
        (True, {"type": "string"}, "true"),
        (3, {"enum": ["3", "4"]}, "3"),
        (" CELSIUS", {"enum": ["celsius", "kelvin"]}, "celsius"),
        ("CELSIUS", {"anyOf": [{"const": "celsius"}, {"type": "null"}]}, "celsius"),
        ("one", STRINGS, ["one"]),
        (1, STRINGS, ["1"]),
        ("01", STRINGS, ["01"]),
        ("3", {"type": "array", "items": {"type": "integer"}}, [3]),
        ({"a": 1}, {"type": "array", "items": {"type": "object"}}, [{"a": 1}]),
        ('{"a": 1}', {"type": "array", "items": {"type": "object"}}, [{"a": 1}]),
        ("one", {"anyOf": [{"type": "null"}, STRINGS]}, ["one"]),
    ],
)
def test_unambiguous_values_are_coerced(said: str, schema: JsonObject, meant: Json) -> None:
    value = coerced(schema, said)

    assert value == meant
    assert type(value) is type(meant)


@folded
@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("3", {"type": "string"}),
        ("3", {"type": ["integer", "string"]}),
        ("null", {"type": ["string", "null"]}),
        ("null", {"anyOf": [{"type": "string", "minLength": 9}, {"type": "null"}]}),
        ("3", {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "integer"}]}),
        ("3", {"$ref": "#/$defs/text", "minLength": 9}),
        ("3", {}),
        ("3", {"minLength": 9}),
        ("3", True),
        ("3", False),
        ("3.7", {"type": "integer"}),
        ("1e300", {"type": "integer"}),
        ("3 days", {"type": "integer"}),
        ("three", {"type": "integer"}),
        ("1e999", {"type": "number"}),
        ("NaN", {"type": "number"}),
        ("1_00", {"type": "integer"}),
        ("0x", {"type": "integer"}),
        ("0x10", {"type": ["integer", "string"]}),
        ("007", {"type": "integer"}),
        ("", {"type": "integer"}),
        ("yes", {"type": "boolean"}),
        ("1", {"type": "boolean"}),
        ("TRUE", {"type": "boolean"}),
        ('"3"', {"type": "integer"}),
        ("9", {"type": "integer", "maximum": 8}),
        ("['a\\x41']", {"type": "array"}),
        ("('a',)", {"type": "array"}),
        ('["a"', {"type": "array"}),
        ("{}", {"type": "array"}),
        ("one", {"type": "array"}),
        ("a, b", STRINGS),
        ("a\nb", STRINGS),
        ('["a"', STRINGS),
        ("", STRINGS),
        (None, STRINGS),
        ([["a"]], STRINGS),
        ("one", {"type": "array", "items": {"type": "string"}, "minItems": 2}),
        (3.0, {"type": "integer"}),
        (3.1, {"type": "string"}),
        (3, {"type": ["string", "boolean"]}),
        (None, {"type": "string"}),
        (True, {"type": "integer"}),
        (["3"], {"type": "integer"}),
        ("C", {"enum": ["c", "c "]}),
        ("cel", {"enum": ["celsius"]}),
    ],
)
def test_ambiguous_values_are_not_changed(value: Json, schema: Json) -> None:
    assert coerced(schema, value) is value


def test_each_part_of_an_object_or_list_is_repaired() -> None:
    schema: JsonObject = {
        "properties": {
            "filters": {"type": "array", "items": {"$ref": "#/$defs/filter"}},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
            "by_name": {"type": "object", "additionalProperties": {"type": "integer"}},
            "by_pattern": {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}},
        },
        "$defs": {
            "filter": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "inner": {"$ref": "#/$defs/filter"}},
            }
        },
    }
    args: dict[str, Json] = {
        "filters": '[{"n": "1", "inner": {"n": "2", "x": "3"}}]',
        "pair": ["1", 2],
        "by_name": {"a": "1", "b": 2},
        "by_pattern": {"n_a": "1", "b": "2"},
    }

    mended, changes = coerce_args(schema, args)

    assert mended == {
        "filters": [{"n": 1, "inner": {"n": 2, "x": "3"}}],
        "pair": [1, "2"],
        "by_name": {"a": 1, "b": 2},
        "by_pattern": {"n_a": 1, "b": "2"},
    }
    assert changes == (
        "filters: string → array",
        "filters[0].n: string → integer",
        "filters[0].inner.n: string → integer",
        "pair[0]: string → integer",
        "pair[1]: integer → string",
        "by_name.a: string → integer",
        "by_pattern.n_a: string → integer",
    )


def test_tuple_schemas_of_older_drafts_are_supported() -> None:
    of_list: JsonObject = {"items": [{"type": "integer"}], "additionalItems": {"type": "boolean"}}
    schema: JsonObject = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": of_list}}

    assert coerce_args(schema, {"a": ["1", "true"]})[0] == {"a": [1, True]}


CIRCLE: JsonObject = {"type": "object", "properties": {"r": {"type": "integer"}}, "required": ["r"]}
SQUARE: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"r": "1"}, {"r": 1}),
        ({"a": "1"}, {"a": 1}),
        ({"R": 1}, {"r": 1}),
        ('{"a": "1"}', {"a": 1}),
        ("1", 1),
        ([{"a": "1"}], [{"a": 1}]),
        ({"b": "1"}, {"b": "1"}),
    ],
)
def test_the_first_alternative_that_accepts_the_repaired_value_is_used(union: str, said: Json, meant: Json) -> None:
    schema: JsonObject = {union: [CIRCLE, SQUARE, {"type": "integer"}, {"type": "array", "items": SQUARE}]}

    assert coerced(schema, said) == meant


def test_alternatives_at_the_root_are_tried() -> None:
    schema: JsonObject = {"type": "object", "anyOf": [CIRCLE, SQUARE]}

    assert coerce_args(schema, {"a": "1"}) == ({"a": 1}, ("a: string → integer",))


def test_a_value_is_only_changed_if_the_result_is_valid_independently_of_the_others() -> None:
    schema: JsonObject = {
        "properties": {"days": {"type": "integer"}, "on": {"type": "boolean"}, "place": CIRCLE},
        "required": ["city"],
    }
    args: dict[str, Json] = {"days": "3", "on": "perhaps", "place": {"r": "1", "x": 2}, "more": "8"}

    mended, changes = coerce_args(schema, args)

    assert mended == {"days": 3, "on": "perhaps", "place": {"r": 1, "x": 2}, "more": "8"}
    assert changes == ("days: string → integer", "place.r: string → integer")


CITY: JsonObject = {"properties": {"city": {"type": "string"}, "day": {"type": "integer"}}, "required": ["city", "day"]}


@pytest.mark.parametrize(
    ("said", "meant", "changes"),
    [
        ({"City": "Oslo", "day": 1}, {"city": "Oslo", "day": 1}, ("parameter: City → city",)),
        (
            {"ciyt": "Oslo", "Day": "1"},
            {"city": "Oslo", "day": 1},
            ("parameter: ciyt → city", "parameter: Day → day", "day: string → integer"),
        ),
        ({"citi": [1], "day": 1}, {"citi": [1], "day": 1}, ()),
        ({"City": "Oslo", "CITY": "Rome", "day": 1}, {"City": "Oslo", "CITY": "Rome", "day": 1}, ()),
        ({"city": "Oslo", "City": "Rome"}, {"city": "Oslo", "City": "Rome"}, ()),
    ],
)
def test_a_typo_in_a_parameter_name_is_repaired_if_it_is_unambiguous(
    said: dict[str, Json], meant: dict[str, Json], changes: tuple[str, ...]
) -> None:
    assert coerce_args(CITY, said) == (meant, changes)


@pytest.mark.parametrize(
    ("more", "said", "meant"),
    [
        ({"required": ["city"]}, "citi", "city"),
        ({"additionalProperties": False}, "citi", "city"),
        ({"additionalProperties": False}, "CITY", "city"),
        ({"required": ["day"]}, "citi", "citi"),
        ({"required": ["day"]}, "CITY", "city"),
        ({"required": ["city"], "patternProperties": {"^c": {}}}, "citi", "citi"),
        ({"required": ["city"], "patternProperties": {"^C": {}}}, "CITY", "CITY"),
    ],
)
def test_a_name_that_the_schema_accepts_is_not_changed(more: JsonObject, said: str, meant: str) -> None:
    schema: JsonObject = {"properties": {"city": {"type": "string"}}, **more}

    assert list(coerce_args(schema, {said: "Oslo"})[0]) == [meant]


def test_names_inside_a_parameter_are_repaired() -> None:
    schema: JsonObject = {"properties": {"at": {"type": "array", "items": CITY}}}

    mended, changes = coerce_args(schema, {"at": [{"City": "Oslo", "day": 1}]})

    assert mended == {"at": [{"city": "Oslo", "day": 1}]}
    assert changes == ("parameter: at[0].City → city",)


def test_only_the_first_of_very_many_changes_are_listed() -> None:
    schema: JsonObject = {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}}

    mended, changes = coerce_args(schema, {"a": [str(number) for number in range(1000)]})

    assert mended == {"a": list(range(1000))}
    assert len(changes) == 17
    assert changes[-1] == "and 984 more"


def test_a_long_list_of_wrong_values_is_left_alone_after_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    schema: JsonObject = {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    items: list[Json] = ["x"] * 100_000
    wrong: dict[str, Json] = {"a": items}
    checks: list[Json] = []
    fits = CompiledSchema.fits

    def counted(self: CompiledSchema, part: Json, value: Json) -> bool:
        checks.append(value)
        return fits(self, part, value)

    monkeypatch.setattr(CompiledSchema, "fits", counted)

    assert coerce_args(schema, wrong) == (wrong, ())
    assert 100 < len(checks) < 5_000


@pytest.mark.parametrize(
    "schema",
    [True, {}, {"properties": 3}, {"properties": {"a": 3}}, {"$ref": "#/nowhere"}, {"properties": {"b": {}}}],
)
def test_arguments_without_a_schema_are_not_changed(schema: JsonObject | bool) -> None:
    args: dict[str, Json] = {"a": "3"}

    assert coerce_args(schema, args)[0] is args


# A tree whose nodes may be written in several ways, nested as deep as one likes.
TREE: JsonObject = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "anyOf": [
                {"type": "object", "properties": {"children": {"$ref": "#/$defs/node"}}, "required": ["children"]},
                {"type": "array", "items": {"$ref": "#/$defs/node"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/node"}},
                {"allOf": [{"$ref": "#/$defs/node"}, {"$ref": "#/$defs/node"}]},
                {"type": "integer", "maximum": 0},
            ]
        }
    },
}


@pytest.mark.parametrize("key", ["childen", "Children", "x"])
def test_the_work_is_bounded_for_unbounded_alternatives(key: str) -> None:
    value: Json = "1"
    for _ in range(60):
        value = {key: [value], "y": "z"}
    args: dict[str, Json] = {"children": value}

    assert coerce_args(TREE, args)[0] is args


@examples(300)
@given(schema=SCHEMAS, value=WRITTEN | VALUES | VALUES_NEAR)
def test_the_result_is_valid_or_the_unchanged_input(schema: JsonObject, value: Json) -> None:
    whole: JsonObject = {"properties": {"a": schema}, "$defs": DEFINITIONS}
    args = {"a": value}

    mended, changes = coerce_args(whole, args)

    assert (mended is args) == (not changes)
    assert mended is args or (satisfies(whole, mended) and not satisfies(whole, args))


@examples(300)
@given(schema=SCHEMAS, value=WRITTEN, first=st.booleans())
def test_a_string_is_not_changed_where_strings_are_allowed(schema: JsonObject, value: str, first: bool) -> None:
    never = {"type": "string", "minLength": 10**9}
    alternatives: list[Json] = [never, schema] if first else [schema, never]

    # But for a listed text that is spelled otherwise.
    assert coerced({"anyOf": alternatives}, value) in (value, "celsius", "a b", "3")


@examples(200)
@given(schema=OBJECTS, args=OBJECTS, value=VALUES)
def test_no_schema_raises_an_error(schema: dict[str, Json], args: dict[str, Json], value: Json) -> None:
    whole: JsonObject = {**schema, "properties": {"a": schema, "b": value}, "anyOf": [schema, value]}

    assert isinstance(coerce_args(whole, args)[0], dict)
    assert isinstance(coerce_args({"properties": {"a": schema, "b": True}}, {"a": value, "B": value})[0], dict)


@examples(100)
@given(arguments=OBJECTS)
def test_arguments_encoded_twice_are_decoded(arguments: dict[str, Json]) -> None:
    text = json.dumps(arguments)

    assert read_arguments(text) == arguments
    assert read_arguments(f" {json.dumps(text)} ") == arguments


@pytest.mark.parametrize("text", ["", "[]", "3", '"3"', '"{"', "{", '"{}" {}', json.dumps(json.dumps("{}"))])
def test_anything_but_an_object_even_inside_a_string_is_none(text: str) -> None:
    assert read_arguments(text) is None
