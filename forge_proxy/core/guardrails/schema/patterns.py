"""Selects which regular expressions of a schema are compiled, so that their time and memory are bounded.

Called by `compiled`. A pattern of 17 characters, `(\\p{L}{100}){100}`, would take half a second and 10 MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import jsonschema_rs

from forge_proxy.core.jsontypes import Json, is_list, is_object

_MAX_BYTES = 2_000_000
"""Size of all compiled patterns of a schema, which takes about 100 ms to compile."""
_MAX_BYTES_OF_ONE = 1_000_000
_MAX_PATTERNS = 200
"""Maximum distinct patterns of one schema; each takes at least 0.1 ms."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
_BY_NAME = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are schemas by name rather than keywords: a parameter may be called `pattern`."""
_OF_OTHERS = ("additionalProperties", "unevaluatedProperties")

PatternOptions: TypeAlias = jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions


def select_engines(schema: Json) -> Sequence[PatternOptions]:
    """Return the engines to try for compiling the schema, in order; none if it has too many patterns."""
    number = len({*_patterns_in(schema)})
    if number > _MAX_PATTERNS:
        return ()
    size = min(_MAX_BYTES_OF_ONE, _MAX_BYTES // max(number, 1))
    # Look-around needs the second engine, which is not linear, so its steps are limited.
    return (
        jsonschema_rs.RegexOptions(size_limit=size),
        jsonschema_rs.FancyRegexOptions(size_limit=size, backtrack_limit=20_000),
    )


def without_patterns(schema: Json) -> Any:
    """Return the schema without patterns, and without rules about members that no pattern matches."""
    if is_list(schema):
        return [without_patterns(item) for item in schema]
    if not is_object(schema):
        return schema
    kept: dict[str, Json] = {}
    for key, value in schema.items():
        if key in ("pattern", "patternProperties"):
            continue
        if key in _OF_OTHERS and "patternProperties" in schema:
            continue
        if key in _BY_NAME and is_object(value):
            kept[key] = {name: without_patterns(inner) for name, inner in value.items()}
        else:
            kept[key] = value if key in _VALUES else without_patterns(value)
    return kept


def _patterns_in(root: Json) -> Iterator[str]:
    pending = [root]
    while pending:
        part = pending.pop()
        if is_list(part):
            pending += part
        elif is_object(part):
            if isinstance(pattern := part.get("pattern"), str):
                yield pattern
            if is_object(several := part.get("patternProperties")):
                yield from several
            pending += part.values()
