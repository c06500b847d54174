"""Schemas of one parameter, and values as models write them, for the properties of coercion and typing."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json, JsonObject
from tests.properties import TEXTS, VALUES

DEFINITIONS: JsonObject = {
    "count": {"type": "integer"},
    "text": {"type": "string"},
    "tree": {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "inner": {"$ref": "#/$defs/tree"}},
        "required": ["n"],
    },
    "again": {"anyOf": [{"$ref": "#/$defs/again"}, {"type": "boolean"}]},
}
_KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_WORDS = ("3", " 3\n", "-0", "3.5", "3.0", "1e2", "true", "True", "None", "null", "[1]", "['a']", "{}", "Celsius")
_ANY: list[Json] = [*_WORDS, 0, 3, True, None]


def _schema(keyword: str, value: Json) -> Json:
    return {keyword: value}


def _object(properties: dict[str, Json], required: bool, more: bool) -> Json:
    names: list[Json] = [*properties] if required else []
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": more}


def _list(items: list[Json]) -> Json:
    return items


def _members(members: dict[str, Json]) -> Json:
    return members


_RULES: list[Json] = [{"enum": ["celsius", "a b"]}, {"enum": [3, "3"]}, {"const": True}, {"maximum": 3}, {}, True]
_LEAVES = (
    st.builds(_schema, st.just("type"), _KINDS)
    | st.builds(_schema, st.just("type"), st.lists(_KINDS, min_size=1, max_size=3, unique=True))
    | st.builds(_schema, st.just("$ref"), st.sampled_from([f"#/$defs/{name}" for name in DEFINITIONS]))
    | st.sampled_from(_RULES)
)


def _composed(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    several = st.lists(inner, min_size=1, max_size=3)
    properties = st.dictionaries(st.sampled_from(["name", "count", "n"]), inner, max_size=3)
    return (
        st.builds(_schema, st.sampled_from(["anyOf", "oneOf", "allOf", "prefixItems"]), several)
        | st.builds(_schema, st.sampled_from(["items", "additionalProperties"]), inner)
        | st.builds(_object, properties, st.booleans(), st.booleans())
    )


SCHEMAS: st.SearchStrategy[Json] = st.recursive(_LEAVES, _composed, max_leaves=6)
"""Any schema of a parameter; references lead into `DEFINITIONS`."""
_NAMES = st.sampled_from(["name", "Name", "nmae", "count", "n", "N"])
_ITEMS = st.sampled_from(_ANY)
_NEAR_OBJECTS = st.dictionaries(_NAMES, _ITEMS | st.lists(_ITEMS, max_size=2).map(_list), max_size=3).map(_members)
VALUES_NEAR = _NEAR_OBJECTS | st.lists(_NEAR_OBJECTS, max_size=2).map(_list) | _ITEMS
"""Values that nearly fit."""
WRITTEN = st.sampled_from(_WORDS) | TEXTS | (VALUES | VALUES_NEAR).map(json.dumps)
"""Texts that may spell something else."""
