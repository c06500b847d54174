"""Checks arguments against the JSON Schema the caller sent, and says in words what is wrong.

Schemas are compiled once and kept. References to other places are never fetched, and patterns run in linear time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Protocol

import jsonschema_rs
import orjson

from forge_proxy.core.chat import Schema
from forge_proxy.core.jsontypes import JsonObject, kind_of, write

_MAX_ERRORS = 8
_MAX_SHOWN = 60
"""Characters of a wrong value that are shown to the model."""


class Validator(Protocol):
    """The part of a compiled schema that is used here."""

    def is_valid(self, instance: Any) -> bool: ...  # the compiled schema takes any JSON value

    def iter_errors(self, instance: Any) -> Iterable[jsonschema_rs.ValidationError]: ...


@lru_cache(maxsize=512)
def _compile(text: str) -> Validator | None:
    try:
        return jsonschema_rs.validator_for(text, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except ValueError:
        pass
    try:  # look-around in a pattern needs the other engine, whose steps are limited instead
        return jsonschema_rs.validator_for(
            text, offline=True, pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000)
        )
    except ValueError:
        return None


def validator(schema: Schema) -> Validator | None:
    """The compiled schema; None for one that cannot be compiled, which then allows any object."""
    return _compile(orjson.dumps(schema).decode())


def faults_in(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """What is wrong with `args`, each as `path: reason`; empty when they satisfy the schema."""
    check = validator(schema)
    if check is None or check.is_valid(args):
        return ()
    faults: list[str] = []
    for error in check.iter_errors(args):
        faults.append(_in_words(error))
        if len(faults) == _MAX_ERRORS:
            break
    return tuple(faults)


def surplus_in(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """The top-level parameters that the schema forbids."""
    check = validator(schema)
    if check is None or check.is_valid(args):
        return ()
    return tuple(
        name
        for error in check.iter_errors(args)
        if error.kind.name == "additionalProperties" and not error.instance_path
        for name in error.kind.as_dict()["unexpected"]
    )


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
            return f"{', '.join(facts['unexpected'])}: no such parameter"
        case _:
            return f"{path or 'arguments'}: {error.message[:200]}"


def _shown(value: object) -> str:
    """A scalar as JSON, cut where it is long; of anything bigger only its kind."""
    if isinstance(value, str | int | float | bool):
        return write(value)[:_MAX_SHOWN]
    return kind_of(value)
