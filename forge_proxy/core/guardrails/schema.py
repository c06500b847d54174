"""Checks arguments against the JSON Schema the caller sent. `reasons` says in words what is wrong.

Schemas are compiled once and kept. References to other places are never fetched, and patterns run in linear time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Protocol
from urllib.parse import quote

import jsonschema_rs
import orjson

from forge_proxy.core.chat import Schema, ToolSpec
from forge_proxy.core.guardrails.reasons import reasons_for
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

_MAX_ERRORS = 8
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas, so that null is a value there."""
# Look-around in a pattern needs the second engine, whose steps are limited instead of its time being linear.
_PATTERNS = (jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000))
_BASE = "json-schema:///forge"
"""The address under which the parts of a schema are found, for those that have none of their own."""


class Validator(Protocol):
    """The part of a compiled schema that is used here."""

    def is_valid(self, instance: Any) -> bool: ...  # the compiled schema takes any JSON value

    def iter_errors(self, instance: Any) -> Iterable[jsonschema_rs.ValidationError]: ...


class Compiled:
    """A schema that could be compiled. Its parts are compiled as well when they are first asked for, and kept."""

    def __init__(self, root: Any, whole: Validator, options: Any) -> None:
        self.root: Json = root
        """What was compiled: the schema that was sent, without its empty members where only that helps."""
        self.whole = whole
        self._resource = root
        self._options = options
        self._places: dict[int, str] | None = None
        self._parts: dict[int, Validator | None] = {}
        self._registry: jsonschema_rs.Registry | None = None

    def fits(self, part: Json, value: Json) -> bool:
        """Whether `value` satisfies `part`, which is a schema somewhere inside the root: that very object."""
        if not is_object(part):
            return part is True
        if id(part) not in self._parts:
            self._parts[id(part)] = self.whole if part is self.root else self._compile_part(part)
        check = self._parts[id(part)]
        return check is not None and _is_valid(check, value)

    def _compile_part(self, part: Json) -> Validator | None:
        if self._places is None:
            self._places = _places_in(self.root)
        place = self._places.get(id(part))
        if place is None:
            return None
        try:
            self._registry = self._registry or jsonschema_rs.Registry([(_BASE, self._resource)])
            by_reference = {"$ref": f"{_BASE}#{place}"}
            return jsonschema_rs.validator_for(
                by_reference, registry=self._registry, offline=True, pattern_options=self._options
            )
        except ValueError:
            return None


def compiled(schema: Schema) -> Compiled | None:
    """The compiled schema; None for one that cannot be compiled, which then allows any object."""
    try:
        return _compile(orjson.dumps(schema).decode())
    except TypeError:  # nested too deeply, or with numbers that are too large
        return None


def flaw_in(schema: Schema) -> str | None:
    """Why a schema cannot be compiled, as `properties.a.type: …`; None for one that can."""
    if compiled(schema) is not None:
        return None
    try:
        jsonschema_rs.validator_for(orjson.loads(orjson.dumps(schema)), offline=True)
    except jsonschema_rs.ValidationError as error:
        return f"{'.'.join(map(str, error.instance_path))}: {error.message}".removeprefix(": ")
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def validator(schema: Schema) -> Validator | None:
    """What checks values against `schema` as a whole; None for one that cannot be compiled."""
    known = compiled(schema)
    return known.whole if known else None


@lru_cache(maxsize=512)
def _compile(text: str) -> Compiled | None:
    sent = orjson.loads(text)
    for schema in (sent, _without_nulls(sent)):
        for options in _PATTERNS:
            try:
                whole = jsonschema_rs.validator_for(schema, offline=True, pattern_options=options)
            except ValueError:
                continue
            return Compiled(schema, whole, options)
    return None


def _without_nulls(schema: Json) -> Any:
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


def _places_in(root: Json) -> dict[int, str]:
    """Where each object inside the root stands, as the fragment of an address."""
    places: dict[int, str] = {}
    pending: list[tuple[Json, str]] = [(root, "")]
    while pending:
        value, place = pending.pop()
        if is_object(value):
            places[id(value)] = place
            steps = ((key.replace("~", "~0").replace("/", "~1"), inner) for key, inner in value.items())
            pending += [(inner, f"{place}/{quote(step, safe='')}") for step, inner in steps]
        elif is_list(value):
            pending += [(inner, f"{place}/{index}") for index, inner in enumerate(value)]
    return places


def uncheckable(tools: Iterable[ToolSpec]) -> tuple[str, ...]:
    """The names of the tools whose schema cannot be compiled: any object is taken for their arguments."""
    return tuple(tool.name for tool in tools if validator(tool.parameters) is None)


def satisfies(schema: Schema, args: JsonObject) -> bool:
    """Whether nothing is wrong with `args`."""
    check = validator(schema)
    return check is None or _is_valid(check, args)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern, as schemas write them, is found in the text. Linear, or limited."""
    check = validator({"pattern": pattern})
    return check is not None and _is_valid(check, text)


def _is_valid(check: Validator, value: Json) -> bool:
    try:
        return check.is_valid(value)
    except ValueError:  # nested too deeply, say
        return False


def faults_in(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """What is wrong with `args`, each as `path: reason`; empty when they satisfy the schema."""
    try:
        reasons = chain.from_iterable(reasons_for(error) for error in _errors(schema, args))
        return tuple(islice(reasons, _MAX_ERRORS))
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
