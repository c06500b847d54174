"""Any client schema: its faults are described, and an invalid schema never breaks a request."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given

from forge_proxy.core.chat import Schema, ToolSpec
from forge_proxy.core.guardrails.arguments.coerce import coerce_args
from forge_proxy.core.guardrails.schema import compiled as schema_module
from forge_proxy.core.guardrails.schema.compiled import (
    Validator,
    compile_schema,
    compile_validator,
    find_faults,
    find_schema_flaw,
    find_surplus_parameters,
    find_uncheckable_tools,
    matches_pattern,
    satisfies,
)
from forge_proxy.core.guardrails.schema.patterns import select_engines
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
        ({}, ("`city`: required, missing",)),
        ({"city": 7}, ("`city`: expected string, got 7",)),
        ({"city": True}, ("`city`: expected string, got true",)),
        ({"city": ["Paris"]}, ("`city`: expected string, got array",)),
        ({"city": None}, ("`city`: expected string, got null",)),
        ({"city": "Paris", "days": "3"}, ('`days`: expected integer, got "3"',)),
        ({"city": "Paris", "days": 10**30 + 0.5}, ()),
        ({"city": "Paris", "unit": "K"}, ('`unit`: expected one of ["C", "F"], got "K"',)),
        ({"city": "Paris", "when": 7}, ("`when`: expected null or string, got 7",)),
        ({"city": "Paris", "place": {}}, ("`place.lat`: required, missing",)),
        ({"city": "Paris", "place": {"lat": "north"}}, ('`place.lat`: expected number, got "north"',)),
        ({"city": "Paris", "place": {"lat": 1, "lon": 2, "x": 3}}, ("`place.lon`, `place.x`: no such parameter",)),
        ({"city": "Paris", "tags": ["a", 1]}, ("`tags[1]`: expected string, got 1",)),
        ({"city": "Paris", "a": 1, "b": 2}, ("`a`, `b`: no such parameter",)),
        ({"city": "Paris", "days": "x" * 99}, (f'`days`: expected integer, got "{"x" * 59}',)),
    ],
)
def test_a_fault_is_reported_with_its_path(args: dict[str, Json], faults: tuple[str, ...]) -> None:
    assert find_faults(WEATHER, args) == faults


def test_up_to_eight_faults_are_reported() -> None:
    schema: JsonObject = {"properties": {f"p{n}": {"type": "integer"} for n in range(20)}}

    assert len(find_faults(schema, {"p0": "", "p1": "", "p2": 3})) == 2
    assert len(find_faults(schema, {f"p{n}": "" for n in range(20)})) == 8


FRUIT: JsonObject = {"type": "object", "properties": {"kind": {"const": "fruit"}, "seeds": {"type": "integer"}}}
SOUP: JsonObject = {
    "type": "object",
    "properties": {"kind": {"const": "soup"}, "hot": {"type": "boolean"}},
    "required": ["hot"],
}

TEA = (
    '`a`: fits no alternative: `a.kind`: expected "fruit", got "tea" or '
    '`a.hot`: required, missing and `a.kind`: expected "soup", got "tea"'
)


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"minimum": 3}, 2, "expected at least 3, got 2"),
        ({"exclusiveMaximum": 3.5}, 4, "expected less than 3.5, got 4"),
        ({"minLength": 3}, "ab", 'expected at least 3 characters, got "ab"'),
        ({"maxItems": 1}, [1, 2], "expected at most 1 items, got array"),
        ({"pattern": "^a"}, "b", 'expected text that matches ^a, got "b"'),
        ({"const": {"a": 1}}, "b", 'expected {"a": 1}, got "b"'),
        ({"const": "x" * 1000}, 1, f'expected "{"x" * 299}…, got 1'),
        ({"enum": ["x" * 1000]}, 1, f'expected one of ["{"x" * 298}…, got 1'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", 'expected integer or null, got "x"'),
        ({"oneOf": [{"const": "a"}, {"enum": ["b", 3]}]}, "x", 'expected "a" or "b" or 3, got "x"'),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, 4, "fits more than one alternative"),
        ({"anyOf": [{"anyOf": [{"type": "integer"}]}, {"type": "null"}]}, [], "expected integer, got array"),
        ({"uniqueItems": True}, [1, 1], "[1,1] has non-unique elements"),
        ({"uniqueItems": True}, ["x" * 300, "x" * 300], "breaks the rule uniqueItems"),
    ],
)
def test_a_violated_rule_is_described_briefly(schema: JsonObject, value: Json, fault: str) -> None:
    assert find_faults({"properties": {"a": schema}}, {"a": value}) == (f"`a`: {fault}",)


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        ({"kind": "fruit", "seeds": "x"}, ('`a.seeds`: expected integer, got "x"',)),
        ({"kind": "soup", "hot": "x"}, ('`a.hot`: expected boolean, got "x"',)),
        ({"kind": "soup"}, ("`a.hot`: required, missing",)),
        (3, ("`a`: expected object or null, got 3",)),
        (
            {"kind": "tea"},
            (TEA,),
        ),
    ],
)
def test_of_several_alternatives_the_intended_one_is_explained(value: Json, faults: tuple[str, ...]) -> None:
    schema: JsonObject = {"properties": {"a": {"anyOf": [FRUIT, SOUP, {"type": "null"}]}}}

    assert find_faults(schema, {"a": value}) == faults


def test_a_fault_at_the_root_is_reported_for_the_arguments() -> None:
    assert find_faults({"minProperties": 2}, {"a": 1}) == ("arguments: expected at least 2 members, got object",)


def test_paths_are_single_line_and_bounded() -> None:
    schema: JsonObject = {"additionalProperties": {"additionalProperties": {"items": {"type": "integer"}}}}

    (fault,) = find_faults(schema, {"a\nb": {"x" * 500: [[]]}})

    assert fault == f"`a\N{REPLACEMENT CHARACTER}b.{'x' * 116}…`: expected integer, got array"


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
def test_only_forbidden_top_level_parameters_are_surplus(
    schema: Schema, args: dict[str, Json], surplus: tuple[str, ...]
) -> None:
    assert find_surplus_parameters(schema, args) == surplus


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
    assert compile_validator(schema) is None
    assert find_faults(schema, {"a": "b"}) == ()
    assert find_surplus_parameters(schema, {"a": "b"}) == ()
    assert satisfies(schema, {"a": "b"})
    assert find_uncheckable_tools([ToolSpec("good", {"type": "object"}), ToolSpec("bad", schema), ToolSpec("any")]) == (
        "bad",
    )


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
    assert compile_validator(schema) is not None
    assert find_uncheckable_tools([ToolSpec("a", schema)]) == ()
    assert good is None or find_faults(schema, good) == ()
    assert bad is None or len(find_faults(schema, bad)) == 1


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(?!b)(a+)+$"])
def test_a_pattern_with_catastrophic_backtracking_is_bounded(pattern: str) -> None:
    schema: JsonObject = {"properties": {"a": {"pattern": pattern}}}

    assert len(find_faults(schema, {"a": "a" * 5000 + "!"})) == 1


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"$id": "https://example.com/tool"},
        {"$id": "tool"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"description": None},
    ],
)
def test_a_part_of_a_schema_is_validated_in_its_context(more: JsonObject) -> None:
    odd = "a/b~ %#é"
    node: JsonObject = {"properties": {odd: {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
    known = compile_schema({"properties": {odd: node}, "$defs": {"node": node}, **more})
    assert known is not None
    root = known.root
    assert isinstance(root, dict)
    assert isinstance(root["properties"], dict)
    part = root["properties"][odd]

    assert known.fits(part, {odd: {"n": 1}})
    assert not known.fits(part, {odd: {odd: {"n": "1"}}})
    assert known.fits(root, {"n": "1"})
    assert (known.fits(True, 1), known.fits(False, 1), known.fits({"type": "integer"}, 1)) == (True, False, False)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a", "ab", True),
        ("^a", "ba", False),
        ("^(?!a)", "b", True),
        ("(", "(", False),
        ("^(a+)+$", "a" * 99 + "!", False),
    ],
)
def test_a_pattern_matches_anywhere_in_the_text(pattern: str, text: str, found: bool) -> None:
    assert matches_pattern(pattern, text) is found


@pytest.mark.parametrize("args", [{"a": "\ud83d"}, {"\ud83d": "b"}, {"a": _deep(400)}], ids=["half", "key", "deep"])
def test_arguments_that_cannot_be_validated_are_faulty(args: dict[str, Json]) -> None:
    schema: JsonObject = {"properties": {"a": {"type": "integer"}}, "additionalProperties": False}

    (fault,) = find_faults(schema, args)

    assert fault.startswith("arguments: cannot be checked: ")
    assert find_surplus_parameters(schema, args) == ()


@examples(150)
@given(schema=OBJECTS, value=VALUES)
def test_no_schema_raises_an_error(schema: dict[str, Json], value: Json) -> None:
    whole: JsonObject = {**schema, "properties": {"a": schema, "b": value if isinstance(value, dict) else True}}

    assert isinstance(find_faults(whole, {"a": value, "b": value}), tuple)
    assert isinstance(find_surplus_parameters(whole, {"a": value, "b": value}), tuple)


def overlapping(levels: int, keyword: str = "anyOf") -> JsonObject:
    """A schema in which each level has the next one twice: 2^levels ways to the last."""
    chain: dict[str, Json] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    chain[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "required": ["a"], "$defs": chain}


NODE: JsonObject = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {
            "oneOf": [
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/node"}}, "required": ["x"]},
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/node"}, "y": {"type": "string"}}},
                {"type": "string"},
            ]
        }
    },
}


def nested(levels: int) -> JsonObject:
    value: Json = 1
    for _ in range(levels):
        value = {"x": value}
    return {"a": value}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_multiplying_alternatives_are_not_validated(keyword: str) -> None:
    schema = overlapping(60, keyword)  # 2^60 steps would not end

    assert satisfies(schema, {"a": 1})
    assert find_faults(schema, {"a": 1}) == ()
    assert find_surplus_parameters(schema, {"a": 1}) == ()
    assert coerce_args(schema, {"a": 1}) == ({"a": 1}, ())


def test_alternatives_that_multiply_with_depth_are_not_validated() -> None:
    assert satisfies(NODE, nested(60))
    assert find_faults(NODE, nested(60)) == ()
    assert not satisfies(NODE, nested(3))
    assert find_faults(NODE, nested(1)) != ()


def test_a_recursive_schema_with_exclusive_alternatives_is_validated_at_any_depth() -> None:
    operators: list[Json] = [
        {"type": "object", "properties": {key: {"$ref": "#/$defs/e"}}, "required": [key]}
        for key in ("not", "all", "some")
    ]
    expression: JsonObject = {
        "type": "object",
        "properties": {"where": {"$ref": "#/$defs/e"}},
        "$defs": {"e": {"anyOf": [*operators, {"type": "string"}]}},
    }
    right: Json = "a"
    wrong: Json = 7
    for _ in range(30):
        right, wrong = {"not": right}, {"not": wrong}

    assert satisfies(expression, {"where": right})
    assert not satisfies(expression, {"where": wrong})


def test_a_schema_without_alternatives_is_validated_with_any_number_of_parameters() -> None:
    names = [f"p{number}" for number in range(25_000)]
    schema: JsonObject = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    right: JsonObject = dict.fromkeys(names, "a")

    assert satisfies(schema, right)
    assert not satisfies(schema, {**right, "p24999": 1})


def test_name_patterns_that_multiply_with_the_members_are_not_validated() -> None:
    patterns: JsonObject = {f"^a{number}b*c": {"type": "string"} for number in range(190)}
    schema: JsonObject = {"type": "object", "patternProperties": patterns}

    assert not satisfies(schema, {f"a{number}c": 1 for number in range(200)})
    assert satisfies(schema, {f"a{number}c": 1 for number in range(100_000)})


@pytest.mark.parametrize("pattern", [r"(\p{L}{100}){100}", r"(?=a)(\p{L}{100}){100}", r"(a{0,100}){0,100}b{1000000}"])
def test_a_pattern_that_compiles_too_large_is_omitted(pattern: str) -> None:
    parameter: JsonObject = {"type": "string", "pattern": pattern, "minLength": 2}
    named: JsonObject = {"pattern": {"type": "integer"}, "a": parameter}
    schema: JsonObject = {"type": "object", "properties": named, "additionalProperties": False}

    assert satisfies(schema, {"a": "ab", "pattern": 1})
    assert [satisfies(schema, wrong) for wrong in ({"a": "a"}, {"a": 7}, {"pattern": "a"}, {"b": 1})] == [False] * 4


def test_members_described_by_omitted_patterns_are_allowed() -> None:
    patterns: JsonObject = {r"^x(\p{L}{100}){100}": {"type": "string"}}
    schema: JsonObject = {"type": "object", "patternProperties": patterns, "additionalProperties": False}

    assert satisfies(schema, {"x": "a"})


def test_of_too_many_patterns_none_is_compiled() -> None:
    members: JsonObject = {f"p{number}": {"type": "string", "pattern": f"^a{number}$"} for number in range(1_000)}
    schema: JsonObject = {"type": "object", "properties": members}

    assert select_engines(schema) == ()
    assert satisfies(schema, {"p1": "b"})
    assert not satisfies(schema, {"p1": 1})


def test_of_too_many_faults_only_the_first_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    items: list[Json] = ["x"] * 150_000
    args: JsonObject = {"a": items}
    known = compile_schema(schema)
    assert known
    monkeypatch.setattr(known, "whole", NeverLists(known.whole))

    assert find_faults(schema, args) == ('`a[0]`: expected integer, got "x"',)


class NeverLists:
    """A compiled schema that is never asked for all errors."""

    def __init__(self, inner: Validator) -> None:
        self._inner = inner

    def is_valid(self, instance: Json) -> bool:
        return self._inner.is_valid(instance)

    def validate(self, instance: Json) -> None:
        self._inner.validate(instance)

    def iter_errors(self, instance: Json) -> list[jsonschema_rs.ValidationError]:
        raise AssertionError("all faults are listed")


def test_a_schema_with_alternatives_is_compiled_up_to_a_quarter_of_a_megabyte() -> None:
    def alternatives(count: int) -> JsonObject:
        return {"anyOf": [{"type": "object", "required": [f"k{number}"]} for number in range(count)]}

    assert compile_schema(alternatives(4_000))
    assert compile_schema(alternatives(7_000)) is None


def test_a_schema_of_megabytes_is_not_compiled() -> None:
    options: list[Json] = [*map(str, range(250_000))]

    assert compile_schema({"type": "object", "properties": {"a": {"enum": options}}}) is None


def test_of_very_many_tools_only_the_first_are_compiled_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Schema] = []
    monkeypatch.setattr(schema_module, "compile_validator", seen.append)

    find_uncheckable_tools(ToolSpec(f"t{number}", {"title": str(number)}) for number in range(30_000))

    assert len(seen) == 1_000


def test_a_flaw_of_a_schema_is_reported_with_its_place() -> None:
    assert (find_schema_flaw({"properties": {"a": {"type": 5}}}) or "").startswith("properties.a.type: ")
    assert (find_schema_flaw({"type": 5}) or "").startswith("type: ")
    assert find_schema_flaw(WEATHER) is None
