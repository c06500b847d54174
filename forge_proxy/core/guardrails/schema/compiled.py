"""Validation of arguments against the JSON Schema that the client sent. `reasons` renders the faults as text.

Compiled schemas are cached. External references are never fetched, and patterns run in linear or limited time.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import jsonschema_rs
import orjson

from forge_proxy.core.bounded_cache import cache_results
from forge_proxy.core.chat import Schema, ToolSpec
from forge_proxy.core.guardrails.schema.cost import SchemaCost, may_multiply
from forge_proxy.core.guardrails.schema.patterns import select_engines, without_patterns
from forge_proxy.core.guardrails.schema.reasons import explain_error
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

_MAX_ERRORS = 8
_CACHE_SIZE = 16_000_000
"""Characters of the schemas in the cache of compiled schemas; compiled, they take about ten times as many bytes."""
_OVERHEAD = 500
_LARGEST = 1_000_000
"""Maximum characters of one schema. A larger one takes too long to compile, so any object satisfies it."""
_LARGEST_BRANCHING = 250_000
"""The same for a schema with alternatives or references, which takes up to five times as long: 0.1 s for this one."""
_MAX_PARTS = 256
"""Maximum parts of one schema that are compiled separately: each takes as much memory as everything it refers to."""
_MAX_OF_PATH = 2_000
_MAX_PRODUCT = 20_000_000
"""Steps for one path times the parts of a value, at most about 100 ms, because few paths take that many steps."""
_MAX_STEPS = 200_000
"""Maximum steps of a check, about 10 ms."""
_MAX_EXPLAINED = 1_000
"""Maximum steps of a validation that lists all faults, up to 30 µs each."""
_MAX_UNCHECKED = 1_000
"""Maximum number of tools of one request whose schemas are compiled in advance."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data rather than schemas, so that null is meaningful in them."""
_BASE = "json-schema:///forge"
"""The base URI of a schema's parts, for schemas without an `$id`."""


class Validator(Protocol):
    """The part of a compiled schema that is used here."""

    def is_valid(self, instance: Any) -> bool: ...  # the compiled schema takes any JSON value

    def validate(self, instance: Any) -> None: ...

    def iter_errors(self, instance: Any) -> Iterable[jsonschema_rs.ValidationError]: ...


class CompiledSchema:
    """A compiled schema. Its parts are compiled on first use and cached."""

    def __init__(
        self,
        root: Any,
        whole: Validator,
        options: Any,
        cost: SchemaCost | None,
        *,
        has_patterns: bool,
        may_forbid: bool,
    ) -> None:
        self.root: Json = root
        """The schema that was compiled: the client's, without null members if it cannot be compiled with them."""
        self.whole = whole
        self.has_patterns = has_patterns
        """Whether patterns are checked. If one of them cannot be compiled, the schema is compiled without patterns."""
        self._resource = root
        self._options = options
        self._places: dict[int, str] | None = None
        self._parts: dict[int, Validator | None] = {}
        self._registry: jsonschema_rs.Registry | None = None
        self.may_forbid = may_forbid
        """Whether the schema may forbid parameters that it does not list."""
        self._cost = cost
        """None if alternatives cannot multiply, so that steps need not be counted."""

    @property
    def has_alternatives(self) -> bool:
        """Whether a part of a value may be checked against several schemas."""
        return self._cost is not None and self._cost.has_unions

    def can_check(self, value: Json) -> bool:
        """Whether the value can be validated in bounded time, since nested alternatives multiply.

        Otherwise it is accepted unchecked, like a value whose schema cannot be compiled.
        """
        cost = self._cost
        if cost is None or (cost.of_path <= _MAX_OF_PATH and not _is_larger(value, _MAX_PRODUCT // cost.of_path)):
            return True
        return cost.allows(value, _MAX_STEPS)

    def can_explain(self, value: Json) -> bool:
        """Whether all faults of a value can be listed in bounded time."""
        of_path = self._cost.of_path if self._cost else 1
        if of_path <= _MAX_EXPLAINED and not _is_larger(value, _MAX_EXPLAINED // of_path):
            return True
        return self._cost is not None and self._cost.allows(value, _MAX_EXPLAINED)

    def fits(self, part: Json, value: Json) -> bool:
        """Whether `value` satisfies `part`, a subschema of the root, identified by object identity."""
        if not is_object(part):
            return part is True
        if id(part) not in self._parts:
            if len(self._parts) == _MAX_PARTS:
                return False
            self._parts[id(part)] = self.whole if part is self.root else self._compile_part(part)
        check = self._parts[id(part)]
        return check is not None and self.can_check(value) and _is_valid(check, value)

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


def compile_schema(schema: Schema) -> CompiledSchema | None:
    """Return the compiled schema; None for one that cannot be compiled, which then allows any object."""
    try:
        text = orjson.dumps(schema).decode()
    except TypeError:  # nested too deeply, or a number is too large
        return None
    return None if len(text) > _LARGEST else _cached(text).schema


def find_schema_flaw(schema: Schema) -> str | None:
    """Return why a schema cannot be compiled, such as `properties.a.type: …`; None if it can."""
    if compile_validator(schema) is not None:
        return None
    try:
        jsonschema_rs.validator_for(orjson.loads(orjson.dumps(schema)), offline=True)
    except jsonschema_rs.ValidationError as error:
        return f"{'.'.join(map(str, error.instance_path))}: {error.message}".removeprefix(": ")
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def compile_validator(schema: Schema) -> Validator | None:
    """Return a validator for the whole `schema`; None if it cannot be compiled with all its patterns."""
    known = compile_schema(schema)
    return known.whole if known and known.has_patterns else None


class _CacheEntry(NamedTuple):
    schema: CompiledSchema | None
    size: int


def _size_of(entry: _CacheEntry) -> int:
    return entry.size


@cache_results(_CACHE_SIZE, _size_of)
def _cached(text: str) -> _CacheEntry:
    """Compile a schema from JSON text. Cached, because an agent offers the same tools with every request."""
    return _CacheEntry(_compile(text), len(text) + _OVERHEAD)


def _compile(text: str) -> CompiledSchema | None:
    is_branching = may_multiply(text)
    if is_branching and len(text) > _LARGEST_BRANCHING:
        return None
    sent = orjson.loads(text)
    corrected = _without_nulls(sent)
    for schema, has_patterns in ((sent, True), (corrected, True), (without_patterns(corrected), False)):
        for options in select_engines(schema):
            try:
                whole = jsonschema_rs.validator_for(schema, offline=True, pattern_options=options)
            except ValueError:
                continue
            cost = SchemaCost(schema) if is_branching else None
            may_forbid = '"additionalProperties":' in text
            return CompiledSchema(schema, whole, options, cost, has_patterns=has_patterns, may_forbid=may_forbid)
    return None


def _without_nulls(schema: Json) -> Any:
    """Return the schema without null members, which some serializers write: `"description": null` is invalid."""
    if is_list(schema):
        return [_without_nulls(item) for item in schema]
    if not is_object(schema):
        return schema
    kept: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _VALUES:
            kept[key] = value
        elif key == "properties" and is_object(value):  # a parameter without a schema accepts anything
            kept[key] = {name: True if part is None else _without_nulls(part) for name, part in value.items()}
        elif value is not None:
            kept[key] = _without_nulls(value)
    return kept


def _places_in(root: Json) -> dict[int, str]:
    """Return the JSON pointer of each object in the root, as a URI fragment, by object id."""
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


def find_uncheckable_tools(tools: Iterable[ToolSpec]) -> tuple[str, ...]:
    """Return the names of the tools whose arguments cannot be fully validated: their schema cannot be compiled, or only
    without its patterns. Only the first `_MAX_UNCHECKED` tools are examined.
    """
    return tuple(tool.name for tool in islice(tools, _MAX_UNCHECKED) if compile_validator(tool.parameters) is None)


def check_arguments(schema: Schema, args: JsonObject) -> tuple[bool, str]:
    """Return whether `args` have no known fault, and why they were not fully checked; `""` if they were."""
    known = compile_schema(schema)
    if known is None:
        return True, "not checked, the schema cannot be used"
    if not known.can_check(args):
        return True, "not checked, the alternatives in the schema multiply"
    return _is_valid(known.whole, args), "" if known.has_patterns else "patterns not checked"


def satisfies(schema: Schema, args: JsonObject) -> bool:
    """Whether `args` are valid, or checking them would take too long (see `can_check`)."""
    return check_arguments(schema, args)[0]


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether a JSON Schema pattern matches the text. Takes linear or limited time."""
    check = compile_validator({"pattern": pattern})
    return check is not None and _is_valid(check, text)


def _is_valid(check: Validator, value: Json) -> bool:
    try:
        return check.is_valid(value)
    except ValueError:  # for example nested too deeply
        return False


def find_faults(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """Return the faults of `args`, each as `path: reason`; empty if they satisfy the schema."""
    try:
        reasons = chain.from_iterable(explain_error(error) for error in _errors(schema, args))
        return tuple(islice(reasons, _MAX_ERRORS))
    except ValueError as exc:
        return (f"arguments: cannot be checked: {exc}",)


def find_surplus_parameters(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """Return the top-level parameters that the schema forbids."""
    known = compile_schema(schema)
    if known is None or not known.may_forbid:
        return ()
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
    """Return the validation errors, or only the first one if the arguments are large.

    Raises `ValueError` if the arguments cannot be validated, for example because they are nested too deeply.
    """
    known = compile_schema(schema)
    if known is None or not known.can_check(args) or known.whole.is_valid(args):
        return ()
    return known.whole.iter_errors(args) if known.can_explain(args) else _first_error(known, args)


def _first_error(known: CompiledSchema, args: JsonObject) -> Iterable[jsonschema_rs.ValidationError]:
    """Return the first validation error, for arguments that are too large to list all of them.

    Raises `ValueError` if the schema has alternatives, since the error of an alternative lists all of its errors.
    """
    if known.has_alternatives:
        raise ValueError("they do not match the schema, and are too large to locate the fault; send smaller ones")
    try:
        known.whole.validate(args)
    except jsonschema_rs.ValidationError as error:
        return (error,)
    return ()


def _is_larger(value: Json, limit: int) -> bool:
    """Whether a value has more parts than the limit."""
    pending, parts = [value], 1
    for part in pending:  # the list grows during the iteration
        inner = part.values() if is_object(part) else part if is_list(part) else ()
        parts += len(inner)
        if parts > limit:
            return True
        pending += [one for one in inner if one.__class__ is dict or one.__class__ is list]
    return False
