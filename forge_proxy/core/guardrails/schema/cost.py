"""Upper bounds for the steps of validating a value against a JSON Schema, because nested alternatives multiply.

Called by `compiled` before a value is validated. Each part of the schema is counted once for each part of the value, so
that counting is cheap even if validation is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from forge_proxy.core.jsontypes import Json, is_list, is_object

ENDLESS = 10**9
"""A number of steps that is treated as unbounded."""
_MAX_WORK = 100_000
"""Maximum work of one count, about 20 ms."""
_PAIR = 5
"""Work for a pair of a schema and a value that is not cached; a cached one takes 1."""
_DEPTH = 40
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("anyOf", "oneOf", "allOf")
_OF_ANY_MEMBER = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_OF_ANY_ITEM = ("additionalItems", "unevaluatedItems", "contains")


_MULTIPLY = (
    *_IN_PLACE, *_IN_PLACE_LISTS, "dependentSchemas", "dependencies", "patternProperties",
    "$ref", "$dynamicRef", "$recursiveRef",
)  # fmt: skip


def may_multiply(text: str) -> bool:
    """Whether one part of a value may be validated against more than one schema, given the JSON text of the schema.

    Without such a keyword, validation takes no more steps than value and schema have parts.
    """
    return any(f'"{key}":' in text for key in _MULTIPLY)


class _TooMany(Exception):
    """The count exceeds `_MAX_WORK`. Never propagates out of this module."""


class SchemaCost:
    """Counts the steps of one schema."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._named: dict[str, Json] | None = None
        self.has_unions = False
        """Whether the counted parts of the schema have alternatives."""
        self.of_path = self._count_path()
        """Steps for one path from the root of any value to a part of it; `ENDLESS` if they cannot be counted."""

    def allows(self, value: Json, limit: int) -> bool:
        """Return whether validating this value takes at most `limit` steps; False if they cannot be counted."""
        try:
            return _ValueCount(self, limit).of(self._root, value) <= limit
        except (_TooMany, RecursionError):
            return False

    def in_place(self, schema: dict[str, Json]) -> Iterator[Json]:
        """Yield the subschemas that apply to the same value. Raises `_TooMany` for an unresolvable reference."""
        for key in _IN_PLACE:
            if key in schema:
                yield schema[key]
        for key in _IN_PLACE_LISTS:
            if is_list(several := schema.get(key)):
                self.has_unions = self.has_unions or key != "allOf"
                yield from several
        if is_object(dependent := schema.get("dependentSchemas") or schema.get("dependencies")):
            yield from dependent.values()
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(reference := schema.get(key), str):
                yield self._resolve(reference)

    def _count_path(self) -> int:
        try:
            return _PathCount(self).of(self._root, _DEPTH)
        except (_TooMany, RecursionError):
            return ENDLESS

    def _resolve(self, reference: str) -> Json:
        if reference in ("#", ""):
            return self._root
        if not reference.startswith("#/"):
            if self._named is None:
                self._named = dict(_names_in(self._root))
            if reference not in self._named:
                raise _TooMany
            return self._named[reference]
        found = self._root
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(found) and name in found:
                found = found[name]
            elif is_list(found) and name.isdecimal() and len(name) < 6 and int(name) < len(found):
                found = found[int(name)]
            else:
                raise _TooMany
        return found


class _Work:
    """Counts the work of counting, up to a limit."""

    def __init__(self, limit: int = _MAX_WORK) -> None:
        self._left = min(limit, _MAX_WORK)

    def add(self, amount: int) -> None:
        """Add work. Raises `_TooMany` above the limit."""
        self._left -= amount
        if self._left < 0:
            raise _TooMany


class _PathCount:
    """Counts the steps along the most expensive path."""

    def __init__(self, cost: SchemaCost) -> None:
        self._cost = cost
        self._work = _Work()
        self._known: dict[tuple[int, int], int] = {}

    def of(self, schema: Json, depth: int) -> int:
        """Return the steps below this schema for a value of `depth` levels."""
        if not is_object(schema) or depth == 0:
            return 1
        key = (id(schema), depth)
        if key in self._known:
            self._work.add(1)
            return self._known[key]
        self._work.add(_PAIR)
        self._known[key] = 1  # ends a recursive reference
        steps = 1 + sum(self.of(inner, depth) for inner in self._cost.in_place(schema))
        for group in _parts(schema):
            steps += max((self.of(inner, depth - 1) for inner in group), default=0)
        self._known[key] = min(steps, ENDLESS)
        return self._known[key]


class _ValueCount:
    """Counts the steps for one value."""

    def __init__(self, cost: SchemaCost, limit: int) -> None:
        self._cost = cost
        # Each counted pair is at least one step, so more work than this means more steps than `limit`.
        self._work = _Work(limit * _PAIR)
        self._known: dict[tuple[int, int], int] = {}

    def of(self, schema: Json, value: Json) -> int:
        """Return the steps for this value and everything inside it."""
        if not is_object(schema):
            return 1
        key = (id(schema), id(value))
        if key in self._known:
            self._work.add(1)
            return self._known[key]
        self._work.add(_PAIR)
        self._known[key] = 1
        steps = 1 + sum(self.of(inner, value) for inner in self._cost.in_place(schema))
        if is_object(value):
            steps += self._of_members(schema, value)
        elif is_list(value):
            steps += self._of_items(schema, value)
        self._known[key] = min(steps, ENDLESS)
        return self._known[key]

    def _of_members(self, schema: dict[str, Json], value: dict[str, Json]) -> int:
        described = schema.get("properties")
        patterns = schema.get("patternProperties")
        anywhere = [schema[key] for key in _OF_ANY_MEMBER if key in schema]
        anywhere += patterns.values() if is_object(patterns) else ()
        steps = 0
        for name, part in value.items():
            if is_object(described) and name in described:
                steps += self.of(described[name], part)
            steps += sum(self.of(inner, part) for inner in anywhere)
        return steps

    def _of_items(self, schema: dict[str, Json], value: list[Json]) -> int:
        items = schema.get("items")
        first = items if is_list(items) else schema.get("prefixItems")
        rest = [schema[key] for key in _OF_ANY_ITEM if key in schema] + ([] if is_list(items) else [items])
        steps = sum(self.of(inner, part) for inner, part in zip(first, value, strict=False)) if is_list(first) else 0
        return steps + sum(self.of(inner, part) for inner in rest for part in value)


def _parts(schema: dict[str, Json]) -> Iterator[list[Json]]:
    """Yield the subschemas for the parts of a value; one part is validated against one schema of each group."""
    if is_object(members := schema.get("properties")):
        yield [*members.values()]
    if is_object(patterns := schema.get("patternProperties")):
        for inner in patterns.values():  # one name may match all patterns
            yield [inner]
    for key in ("items", "prefixItems"):
        yield [*several] if is_list(several := schema.get(key)) else [several]
    for key in (*_OF_ANY_MEMBER, *_OF_ANY_ITEM):
        yield [schema.get(key)]


def _names_in(root: Json) -> Iterator[tuple[str, Json]]:
    """Yield the subschemas that have an anchor or an id, with the reference to each."""
    pending = [root]
    while pending:
        part = pending.pop()
        if is_object(part):
            for key, prefix in (("$anchor", "#"), ("$dynamicAnchor", "#"), ("$id", ""), ("id", "")):
                if isinstance(name := part.get(key), str):
                    yield f"{prefix}{name}", part
            pending += part.values()
        elif is_list(part):
            pending += part
