"""Coerces argument values to the types of their schema if no information is lost.

Repairs values sent as strings, a single value in place of a list, and typos in a parameter's name or in the case of an
enum value. A valid value is never changed, nor is a string if the schema allows any string. A repair counts only if
the schema accepts its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.arguments.parameter_names import match_names
from forge_proxy.core.guardrails.arguments.spelling import parse_spelled
from forge_proxy.core.guardrails.schema.compiled import CompiledSchema, compile_schema, satisfies
from forge_proxy.core.guardrails.schema.reasons import render_path
from forge_proxy.core.guardrails.schema.view import KINDS, SchemaAlternatives, SchemaView
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, kind_of, read_object, read_value, write

Path: TypeAlias = tuple[str | int, ...]
CoercedArguments: TypeAlias = tuple[Json, tuple[str, ...]]
"""A value and the descriptions of the changes to it, such as `days: string → integer`."""
_TEXT_ONLY = frozenset({"string", "null"})
_MAX_DEPTH = 32
_MAX_CHANGES = 16
_MAX_TRIALS = 1000
_MAX_PARTS = 4000
"""Maximum parts of the arguments that are examined, about 6 µs each; the others are not changed."""
_UNREPAIRED_PART = 4
"""How many parts an invalid part counts as that cannot be repaired: all its candidates were tried."""
_WORK = 20_000_000
"""Maximum characters validated by trials in total: long arguments get fewer trials."""


def coerce_args(
    schema: Schema, args: dict[str, Json], length: int | None = None
) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Return the arguments with unambiguous repairs, and the changes, such as `days: string → integer`, without values.

    Each parameter is repaired separately, so the others may still be invalid. Valid arguments are returned as they are.
    `length` is that of their JSON text, if known.
    """
    known = compile_schema(schema)
    if known is None or satisfies(schema, args):
        return args, ()
    try:
        length = len(write(args)) if length is None else length
    except RecursionError:
        return args, ()
    trials = min(_MAX_TRIALS, 10 + _WORK // (1 + length))
    coerced, changes = _Coercer(known, trials).arguments(args)
    if len(changes) > _MAX_CHANGES:
        changes = (*changes[:_MAX_CHANGES], f"and {len(changes) - _MAX_CHANGES} more")
    return coerced, changes


class _Coercer:
    """Coerces the arguments of one call."""

    def __init__(self, known: CompiledSchema, trials: int) -> None:
        self._known = known
        self._schema = SchemaView(known.root)
        self._views: dict[tuple[int, ...], SchemaAlternatives] = {}
        self._parts_left = _MAX_PARTS
        self._trials = trials
        """The remaining number of alternatives that may be tried."""

    def arguments(self, args: dict[str, Json]) -> tuple[dict[str, Json], tuple[str, ...]]:
        """Return the arguments as far as they can be coerced, and the changes."""
        root = (self._known.root,)
        view = self._schema.view(root)
        if view.unions:
            coerced, changes = self._coerce(root, args, ())
            if is_object(coerced) and changes:
                return coerced, changes
        return self._object(SchemaAlternatives(view.faces), args, ())

    def _coerce(self, schemas: tuple[Json, ...], value: Json, path: Path) -> CoercedArguments:
        """Return the value coerced to its schemas; the same object if it is valid or cannot be coerced."""
        self._parts_left -= 1
        if self._parts_left >= 0 and len(path) <= _MAX_DEPTH and not self._fits(schemas, value):
            kinds = self._schema.kinds(schemas)
            for candidate, changes in self._candidates(kinds, self._view(schemas), value, path):
                if self._fits(schemas, candidate):
                    return candidate, changes
            self._parts_left -= _UNREPAIRED_PART - 1
        return value, ()

    def _view(self, schemas: tuple[Json, ...]) -> SchemaAlternatives:
        # All schemas are parts of the root, which outlives this object, so their ids are unique.
        key = tuple(map(id, schemas))
        if key not in self._views:
            self._views[key] = self._schema.view(schemas)
        return self._views[key]

    def _fits(self, schemas: tuple[Json, ...], value: Json) -> bool:
        return all(self._known.fits(schema, value) for schema in schemas)

    def _candidates(
        self, kinds: frozenset[str], view: SchemaAlternatives, value: Json, path: Path
    ) -> Iterator[CoercedArguments]:
        """Yield the possible repairs of an invalid value, the most likely one first."""
        place = render_path(path)
        if isinstance(value, str):
            if "string" in kinds:
                yield from self._respell(view, value, place)
                return
            for read in parse_spelled(value, kinds):
                change = f"{place}: string → {kind_of(read)}"
                yield read, (change,)
                for inner, changes in self._parts(view, read, path):
                    yield inner, (change, *changes)
        elif isinstance(value, int) and kinds <= _TEXT_ONLY and "string" in kinds:
            # Not a float: the parser has already turned 3.10 into 3.1.
            yield write(value), (f"{place}: {kind_of(value)} → string",)
        yield from self._parts(view, value, path)
        if "array" in kinds and value is not None and not is_list(value):
            yield from self._wrap(view, value, path)

    def _respell(self, view: SchemaAlternatives, value: str, place: str) -> Iterator[CoercedArguments]:
        """Yield the only enum value that differs just in case or surrounding white space."""
        folded = value.strip().casefold()
        alike = [text for text in self._schema.constants(view) if text.strip().casefold() == folded]
        if len(alike) == 1:
            yield alike[0], (f"{place}: spelled as in the enum",)

    def _parts(self, view: SchemaAlternatives, value: Json, path: Path) -> Iterator[CoercedArguments]:
        """Yield the object or list with its parts coerced, for each alternative of its schema."""
        if is_object(value):
            yield from (self._object(choice, value, path) for choice in self._choices(view))
        elif is_list(value):
            yield from (self._list(choice, value, path) for choice in self._choices(view))

    def _object(
        self, view: SchemaAlternatives, value: dict[str, Json], path: Path
    ) -> tuple[dict[str, Json], tuple[str, ...]]:
        names = self._match_parameters(view, value, path)
        coerced: dict[str, Json] = {}
        changes: list[str] = []
        for written_name, part in value.items():
            name = names.get(written_name, written_name)
            if name != written_name:
                changes.append(f"parameter: {render_path((*path, written_name))} → {render_path((name,))}")
            coerced[name], more = self._coerce(view.property(name), part, (*path, name))
            changes += more
        return (coerced, tuple(changes)) if changes else (value, ())

    def _match_parameters(self, view: SchemaAlternatives, value: JsonObject, path: Path) -> dict[str, str]:
        """Return the parameter for each unknown name. A name with a typo also requires a valid value."""
        missing = [name for name in view.known if name not in value]
        unknown = [name for name in value if not view.describes(name)] if missing else []
        if not unknown:
            return {}
        nearly = missing if view.closed else [name for name in missing if name in view.required]
        found: dict[str, str] = {}
        for written_name, name, is_exact in match_names(unknown, missing, nearly):
            schemas = view.property(name)
            if is_exact or (
                self._try() and self._fits(schemas, self._coerce(schemas, value[written_name], (*path, name))[0])
            ):
                found[written_name] = name
        return found

    def _list(self, view: SchemaAlternatives, value: list[Json], path: Path) -> CoercedArguments:
        coerced: list[Json] = []
        changes: list[str] = []
        for index, part in enumerate(value):
            if self._parts_left <= 0:
                coerced += value[index:]
                break
            item, more = self._coerce(view.item(index), part, (*path, index))
            coerced.append(item)
            changes += more
        return (coerced, tuple(changes)) if changes else (value, ())

    def _wrap(self, view: SchemaAlternatives, value: Json, path: Path) -> Iterator[CoercedArguments]:
        """Yield a list with the value as its only element, if the schema restricts the elements."""
        for choice in self._choices(view):
            schemas = choice.item(0)
            if (
                "array" not in self._schema.kinds(choice.faces)
                or self._schema.kinds(schemas) == KINDS
                or not self._try()
            ):
                continue
            item, changes = self._coerce(schemas, value, (*path, 0))
            if self._fits(schemas, item) and not _may_be_several(item):
                yield [item], (f"{render_path(path)}: {kind_of(value)} → array", *changes)

    def _choices(self, view: SchemaAlternatives) -> Iterator[SchemaAlternatives]:
        """Yield the alternatives of a schema until no trial remains."""
        if not view.unions:
            yield view
            return
        for choice in self._schema.choices(view):
            if not self._try():
                return
            yield choice

    def _try(self) -> bool:
        self._trials -= 1
        return self._trials >= 0


def _may_be_several(item: Json) -> bool:
    """Whether a string may be a list that cannot be parsed unambiguously, or is empty."""
    return isinstance(item, str) and (not item.strip() or item.lstrip()[0] in "[{" or "," in item or "\n" in item)


def read_arguments(text: str) -> dict[str, Json] | None:
    """Parse arguments as an object, or as a JSON string that contains one; None for anything else."""
    args = read_object(text)
    if args is not None:
        return args
    text = text.strip()
    inner = read_value(text, 0)
    whole = inner is not None and inner[1] == len(text)
    return read_object(inner[0]) if inner and whole and isinstance(inner[0], str) else None
