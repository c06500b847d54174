"""Raw text is typed by its schema; text that may only be a string is not changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.arguments.mapping import type_arguments
from forge_proxy.core.guardrails.schema.view import SchemaView, kind_in_schema
from forge_proxy.core.jsontypes import Json, JsonObject
from tests.core.guardrails.schemas import DEFINITIONS, SCHEMAS, WRITTEN
from tests.properties import OBJECTS, TEXTS, VALUES, examples

ROOT: JsonObject = {"$defs": DEFINITIONS}


def type_value(schema: Json, root: JsonObject, text: str) -> Json:
    """Type the raw text of one parameter with this schema, whose local references point into `root`."""
    tool_schema: JsonObject = {**root, "properties": {"value": schema}}
    return type_arguments(tool_schema, {"value": text}, {"value"})["value"]


INTEGERS: JsonObject = {"type": "array", "items": {"type": "integer"}}
POINT: JsonObject = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "label": {"type": "string"}, "tags": {"type": "array"}},
}
MINIMAX = "]<]minimax[>["


def type_raw(schema: Json, root: Schema, text: str) -> Json:
    """Type the raw text of an argument with this schema; its references are resolved in `root`."""
    definitions = root if isinstance(root, dict) else {}
    tool: JsonObject = {**definitions, "properties": {"value": schema}}
    return type_arguments(tool, {"value": text}, {"value"})["value"]


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("3", {"type": "integer"}, 3),
        ("\n3\n", {"type": "integer"}, 3),
        ("3.0", {"type": "integer"}, 3),
        ("1.50", {"type": "number"}, 1.5),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("null", {"type": ["integer", "null"]}, None),
        ("None", {"type": ["string", "null"]}, None),
        ("3", {"type": ["string", "integer"]}, 3),
        ("3", {"anyOf": [{"type": "string"}, {"type": "number"}]}, 3),
        ("3", {"enum": [3, 4]}, 3),
        ("3", {"$ref": "#/$defs/count"}, 3),
        ('[1, "2"]', INTEGERS, [1, "2"]),
        ("", INTEGERS, []),
        (" \n", POINT, {}),
        ("", {"type": ["array", "object"]}, ""),
        ("", {"type": ["array", "string"]}, ""),
        ("", {}, ""),
        ("['a', None]", {"type": "array"}, ["a", None]),
        ('{"x": "1"}', POINT, {"x": "1"}),
        ("<item>1</item>\n<item> 2 </item>", INTEGERS, [1, 2]),
        ("<item>1</item>", INTEGERS, [1]),
        ("<n>1</n><n>2</n>", INTEGERS, [1, 2]),
        ("<item>Vec<String></item>", {"type": "array", "items": {"type": "string"}}, ["Vec<String>"]),
        ("<x>1</x>\n<label> <b>1</b> </label>", POINT, {"x": 1, "label": " <b>1</b> "}),
        ("<X>1</X>", POINT, {"X": 1}),
        ("<tags>a</tags><tags>b</tags>", POINT, {"tags": ["a", "b"]}),
        ("<item><x>1</x></item>", {"type": "array", "items": POINT}, [{"x": 1}]),
        ("<x>1</x>", {"anyOf": [POINT, {"type": "null"}]}, {"x": 1}),
        ("<x>1</x>", {"type": ["array", "object"]}, {"x": "1"}),
        ("<item>1</item>", {"type": ["array", "object"]}, ["1"]),
        ("<n>1</n><inner><n>2</n></inner>", {"$ref": "#/$defs/tree"}, {"n": 1, "inner": {"n": 2}}),
        (
            f"{MINIMAX}<x>1{MINIMAX}</x>\n{MINIMAX}<tags>{MINIMAX}<item>a</item></tags>",
            POINT,
            {"x": 1, "tags": ["a"]},
        ),
    ],
)
def test_raw_text_is_typed_by_its_schema(text: str, schema: JsonObject, value: Json) -> None:
    typed = type_value(schema, ROOT, text)

    assert typed == value
    assert type(typed) is type(value)


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("3", {"type": "string"}),
        (" null ", {"type": "string"}),
        ("3", {"$ref": "#/$defs/text"}),
        ("3", {"enum": ["3", "4"]}),
        ("3", {}),
        ("3", True),
        ("3", None),
        (" three ", {"type": ["integer", "string"]}),
        ("[1", {"type": ["array", "string"]}),
        ("three", {"type": "integer"}),
        ("3.5", {"type": "integer"}),
        ('"3"', {"type": "integer"}),
        ("", {"type": "null"}),
        ("a<item>1</item>", INTEGERS),
        ("<item>1", INTEGERS),
        ("<x>1</x><y>2</y>", INTEGERS),
        ("<x>1</x>", {"type": ["integer", "string"]}),
    ],
)
def test_text_that_fits_no_other_type_is_not_changed(text: str, schema: Json) -> None:
    assert type_value(schema, ROOT, text) is text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("true", True),
        ("False", False),
        ('{"x": 1}', {"x": 1}),
        ("['a']", ["a"]),
        ("3", "3"),
        ("a", "a"),
    ],
)
def test_an_untyped_parameter_accepts_unambiguous_values(text: str, value: Json) -> None:
    assert type_value({}, ROOT, text) == value
    assert type_arguments({"properties": {"a": {}}}, {"a": text, "b": text}, {"a", "b"}) == {"a": value, "b": text}


@pytest.mark.parametrize("text", ['[{\\"a\\": \\"b\\"}]', '{\\"a\\": 1}'])
def test_a_list_or_object_with_escaped_quotes_is_parsed(text: str) -> None:
    assert type_value({"type": ["array", "object"]}, ROOT, text) == json.loads(text.replace("\\", ""))


def test_only_raw_arguments_are_typed_and_names_are_not_changed() -> None:
    schema: JsonObject = {
        "properties": {"file_path": {"type": "string"}, "max_lines": {"type": "integer"}, "n": {"type": "integer"}}
    }
    args: dict[str, Json] = {"filePath": "3", "Max-Lines": "3", "n": "3", "more": "3", "on": True}

    typed = type_arguments(schema, args, {"filePath", "Max-Lines", "more", "on", "absent"})

    assert typed == {"filePath": "3", "Max-Lines": 3, "n": "3", "more": "3", "on": True}


def test_the_schema_of_a_parameter_is_found_in_alternatives() -> None:
    schema: JsonObject = {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]}

    assert type_arguments(schema, {"a": "3"}, {"a"}) == {"a": 3}


@examples(300)
@given(schema=SCHEMAS, text=WRITTEN | st.lists(st.sampled_from(["<a>", "</a>", "<b>", "</b>", "3"])).map("".join))
def test_the_result_has_an_allowed_type_or_is_the_unchanged_text(schema: Json, text: str) -> None:
    root: JsonObject = {"properties": {"a": schema}, "$defs": DEFINITIONS}
    kinds = SchemaView(root).kinds((schema,))

    value = type_value(schema, root, text)

    assert value is text or kind_in_schema(value) in kinds - {"string"}


@examples(200)
@given(schema=OBJECTS, value=VALUES, text=TEXTS)
def test_no_schema_raises_an_error(schema: dict[str, Json], value: Json, text: str) -> None:
    root: JsonObject = {**schema, "properties": {"a": value, "b": schema}, "anyOf": [value]}

    assert set(type_arguments(root, {"a": text, "b": text}, {"a", "b"})) == {"a", "b"}
    type_value(value, root, text)


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "['" + "\\'" * 50_000, "[" + "'\\" * 50_000, "<a>" * 50_000, "<" * 100_000]
)
def test_hostile_text_stays_text(text: str) -> None:
    assert type_value({"type": ["array", "object"]}, ROOT, text) is text


def test_elements_are_read_as_deep_as_the_limit() -> None:
    root: JsonObject = {"$defs": {"tree": {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}}}}
    value = type_value({"$ref": "#/$defs/tree"}, root, "<a>" * 60 + "leaf" + "</a>" * 60)

    depth = 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1

    assert depth == 32
    assert value == "<a>" * 28 + "leaf" + "</a>" * 28
