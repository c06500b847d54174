"""Validation of arguments against the JSON Schema that the client sent. `reasons` renders the faults as text.

Schemas are compiled once and kept. References to other places are never fetched, and patterns run in linear time.
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
from forge_proxy.core.guardrails.reasons import reasons_for
from forge_proxy.core.guardrails.schema_cost import SchemaCost, may_multiply
from forge_proxy.core.guardrails.schema_patterns import pattern_options, without_patterns
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

_MAX_ERRORS = 8
_CACHE_SIZE = 16_000_000
"""Characters of the schemas in the cache of compiled schemas; compiled, they take about ten times as many bytes."""
_OVERHEAD = 500
_LARGEST = 1_000_000
"""Maximum characters of one schema. A larger one takes too long to compile, so any object satisfies it."""
_MAX_PARTS = 256
"""Parts of one schema that are compiled by themselves: each takes as much memory as all that it refers to."""
_MAX_OF_PATH = 2_000
_MAX_PRODUCT = 20_000_000
"""Steps for one path times the parts of a value: some 100 ms at most, since few paths take the most steps."""
_MAX_STEPS = 200_000
"""Maximum steps of a check, about 10 ms."""
_MAX_EXPLAINED = 1_000
"""Maximum steps of a check that lists all faults, each of which takes up to 30 µs."""
_MAX_UNCHECKED = 1_000
"""Maximum number of tools of one request whose schemas are compiled in advance."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data rather than schemas, so that null is meaningful in them."""
_BASE = "json-schema:///forge"
"""The address under which the parts of a schema are found, for those that have none of their own."""


class Validator(Protocol):
    """The part of a compiled schema that is used here."""

    def is_valid(self, instance: Any) -> bool: ...  # the compiled schema takes any JSON value

    def validate(self, instance: Any) -> None: ...

    def iter_errors(self, instance: Any) -> Iterable[jsonschema_rs.ValidationError]: ...


class CompiledSchema:
    """A compiled schema. Its parts are compiled on first use and cached."""

    def __init__(
        self, root: Any, whole: Validator, options: Any, cost: SchemaCost | None, *, has_patterns: bool
    ) -> None:
        self.root: Json = root
        """What was compiled: the schema that was sent, without its empty members where only that helps."""
        self.whole = whole
        self.has_patterns = has_patterns
        """Whether the patterns of the schema are checked: without them the rest is, if one of them is not usable."""
        self._resource = root
        self._options = options
        self._places: dict[int, str] | None = None
        self._parts: dict[int, Validator | None] = {}
        self._registry: jsonschema_rs.Registry | None = None
        self._cost = cost
        """None if alternatives cannot multiply, so that no step has to be counted."""

    @property
    def has_alternatives(self) -> bool:
        """Whether a part of a value may be checked against several schemas."""
        return self._cost is not None and self._cost.has_unions

    def can_check(self, value: Json) -> bool:
        """Whether a check of the value ends soon. A value for which it does not is taken as it is, like one whose
        schema cannot be compiled: alternatives inside alternatives multiply.
        """
        cost = self._cost
        if cost is None or (cost.of_path <= _MAX_OF_PATH and not _is_larger(value, _MAX_PRODUCT // cost.of_path)):
            return True
        return cost.of_value(value) <= _MAX_STEPS

    def can_explain(self, value: Json) -> bool:
        """Whether all faults of a value can be listed in bounded time."""
        of_path = self._cost.of_path if self._cost else 1
        if of_path <= _MAX_EXPLAINED and not _is_larger(value, _MAX_EXPLAINED // of_path):
            return True
        return self._cost is not None and self._cost.of_value(value) <= _MAX_EXPLAINED

    def fits(self, part: Json, value: Json) -> bool:
        """Whether `value` satisfies `part`, which is a schema somewhere inside the root: that very object."""
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


def compiled(schema: Schema) -> CompiledSchema | None:
    """Return the compiled schema; None for one that cannot be compiled, which then allows any object."""
    try:
        text = orjson.dumps(schema).decode()
    except TypeError:  # nested too deeply, or with numbers that are too large
        return None
    return None if len(text) > _LARGEST else _cached(text).schema


def flaw_in(schema: Schema) -> str | None:
    """Return why a schema cannot be compiled, such as `properties.a.type: …`; None if it can."""
    if validator(schema) is not None:
        return None
    try:
        jsonschema_rs.validator_for(orjson.loads(orjson.dumps(schema)), offline=True)
    except jsonschema_rs.ValidationError as error:
        return f"{'.'.join(map(str, error.instance_path))}: {error.message}".removeprefix(": ")
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def validator(schema: Schema) -> Validator | None:
    """Return a validator for the whole `schema`; None if it cannot be compiled with all its patterns."""
    known = compiled(schema)
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
    sent = orjson.loads(text)
    corrected = _without_nulls(sent)
    for schema, has_patterns in ((sent, True), (corrected, True), (without_patterns(corrected), False)):
        for options in pattern_options(schema):
            try:
                whole = jsonschema_rs.validator_for(schema, offline=True, pattern_options=options)
            except ValueError:
                continue
            cost = SchemaCost(schema) if may_multiply(text) else None
            return CompiledSchema(schema, whole, options, cost, has_patterns=has_patterns)
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
    """The names of the tools whose schema cannot be compiled: any object is accepted as their arguments, or one that
    satisfies the schema but for its patterns. Of very many tools only the first are looked at.
    """
    return tuple(tool.name for tool in islice(tools, _MAX_UNCHECKED) if validator(tool.parameters) is None)


def check_arguments(schema: Schema, args: JsonObject) -> tuple[bool, str]:
    """Return whether `args` have no known fault, and why they were not fully checked; `""` if they were."""
    known = compiled(schema)
    if known is None:
        return True, "not checked, the schema cannot be used"
    if not known.can_check(args):
        return True, "not checked, the alternatives in the schema multiply"
    return _is_valid(known.whole, args), "" if known.has_patterns else "patterns not checked"


def satisfies(schema: Schema, args: JsonObject) -> bool:
    """Whether `args` are valid, or checking them would take too long (see `can_check`)."""
    return check_arguments(schema, args)[0]


def matches(pattern: str, text: str) -> bool:
    """Whether a JSON Schema pattern matches the text. Takes linear or limited time."""
    check = validator({"pattern": pattern})
    return check is not None and _is_valid(check, text)


def _is_valid(check: Validator, value: Json) -> bool:
    try:
        return check.is_valid(value)
    except ValueError:  # nested too deeply, say
        return False


def faults_in(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """Return the faults of `args`, each as `path: reason`; empty if they satisfy the schema."""
    try:
        reasons = chain.from_iterable(reasons_for(error) for error in _errors(schema, args))
        return tuple(islice(reasons, _MAX_ERRORS))
    except ValueError as exc:
        return (f"arguments: cannot be checked: {exc}",)


def surplus_in(schema: Schema, args: JsonObject) -> tuple[str, ...]:
    """Return the top-level parameters that the schema forbids."""
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
    """What is wrong, one by one; of much, the first. Raises `ValueError` for arguments that cannot be checked: nested
    too deeply, say.
    """
    known = compiled(schema)
    if known is None or not known.can_check(args) or known.whole.is_valid(args):
        return ()
    return known.whole.iter_errors(args) if known.can_explain(args) else _first_error(known, args)


def _first_error(known: CompiledSchema, args: JsonObject) -> Iterable[jsonschema_rs.ValidationError]:
    """One thing that is wrong, for arguments with so many parts that to list all would take long.

    Raises `ValueError` where even that would: an alternative is explained by all that is wrong with it.
    """
    if known.has_alternatives:
        raise ValueError("they break the schema, and are too large to say where")
    try:
        known.whole.validate(args)
    except jsonschema_rs.ValidationError as error:
        return (error,)
    return ()


def _is_larger(value: Json, limit: int) -> bool:
    """Whether a value has more parts than the limit."""
    pending, parts = [value], 1
    for part in pending:  # which grows
        inner = part.values() if is_object(part) else part if is_list(part) else ()
        parts += len(inner)
        if parts > limit:
            return True
        pending += [one for one in inner if one.__class__ is dict or one.__class__ is list]
    return False
