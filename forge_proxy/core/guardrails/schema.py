"""Checks arguments against the JSON Schema the caller sent, and says in words what is wrong.

Schemas are compiled once and kept. References to other places are never fetched, and patterns run in linear time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

import jsonschema_rs
import orjson

from forge_proxy.core.chat import Schema
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, kind_of, write

_MAX_ERRORS = 8
_MAX_SHOWN = 60
"""Characters of a wrong value that are shown to the model."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas, so that null is a value there."""
# Look-around in a pattern needs the second engine, whose steps are limited instead of its time being linear.
_PATTERNS = (jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000))


class Validator(Protocol):
    """The part of a compiled schema that is used here."""

    def is_valid(self, instance: Any) -> bool: ...  # the compiled schema takes any JSON value

    def iter_errors(self, instance: Any) -> Iterable[jsonschema_rs.ValidationError]: ...


def validator(schema: Schema) -> Validator | None:
    """The compiled schema; None for one that cannot be compiled, which then allows any object."""
    try:
        return _compile(orjson.dumps(schema).decode())
    except TypeError:  # nested too deeply, or with numbers that are too large
        return None


@lru_cache(maxsize=512)
def _compile(text: str) -> Validator | None:
    for schema in (text, orjson.dumps(_without_nulls(orjson.loads(text))).decode()):
        for options in _PATTERNS:
            try:
                return jsonschema_rs.validator_for(schema, offline=True, pattern_options=options)
            except ValueError:
                continue
    return None


def _without_nulls(schema: Json) -> Json:
    """The schema without the members that serialisers leave empty: `"description": null` is not allowed, strictly."""
    if is_list(schema):
        return [_without_nulls(item) for item in schema]
    if not is_object(schema):
        return schema
    kept: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _VALUES:
            kept[key] = value
        elif key == "properties" and is_object(value):  # a parameter of which nothing is said may be anything
            kept[key] = {name: True if of_it is None else _without_nulls(of_it) for name, of_it in value.items()}
        elif value is not None:
            kept[key] = _without_nulls(value)
    return kept


def faults_in(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """What is wrong with `args`, each as `path: reason`; empty when they satisfy the schema."""
    try:
        return tuple(_in_words(error) for error in islice(_errors(schema, args), _MAX_ERRORS))
    except ValueError as exc:
        return (f"arguments: cannot be checked: {exc}",)


def surplus_in(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """The top-level parameters that the schema forbids."""
    try:
        return tuple(
            name
            for error in _errors(schema, args)
            if error.kind.name == "additionalProperties" and not error.instance_path
            for name in error.kind.as_dict()["unexpected"]
        )
    except ValueError:
        return ()


def _errors(schema: Schema, args: JsonObject) -> Iterable[jsonschema_rs.ValidationError]:
    """What is wrong, one by one. Raises `ValueError` for arguments that cannot be checked: nested too deeply, say."""
    check = validator(schema)
    return () if check is None or check.is_valid(args) else check.iter_errors(args)


def _in_words(error: jsonschema_rs.ValidationError) -> str:
    path = ".".join(str(part) for part in error.instance_path)
    facts: dict[str, Any] = error.kind.as_dict()
    match error.kind.name:
        case "required":
            name = facts["property"]
            return f"{path}.{name}: required, missing" if path else f"{name}: required, missing"
        case "type":
            wanted = " or ".join(facts["types"])
            return f"{path or 'arguments'}: expected {wanted}, got {_shown(error.instance)}"
        case "enum":
            return f"{path or 'arguments'}: expected one of {write(facts['options'])}"
        case "additionalProperties":
            names = (f"{path}.{name}" if path else name for name in facts["unexpected"])
            return f"{', '.join(names)}: no such parameter"
        case _:
            return f"{path or 'arguments'}: {error.message[:200]}"


def _shown(value: object) -> str:
    """A scalar as JSON, cut where it is long; of anything bigger only its kind."""
    if isinstance(value, str | int | float | bool):
        return write(value)[:_MAX_SHOWN]
    return kind_of(value)
