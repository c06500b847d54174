"""Turns argument values into what their schema asks for, where nothing is lost by it.

Types that came as text, single values in place of a list, a slip in a parameter's name or in the case of a listed
value. What fits is never touched, nor is a text where a text is allowed, but for the spelling of a listed one. Whatever
is guessed here counts only if the schema then accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.parameters import match_names
from forge_proxy.core.guardrails.paths import path_of
from forge_proxy.core.guardrails.schema import CompiledSchema, compiled, satisfies
from forge_proxy.core.guardrails.schema_view import KINDS, SchemaAlternatives, SchemaView
from forge_proxy.core.guardrails.spelling import readings
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, kind_of, read_object, read_value, write

Path: TypeAlias = tuple[str | int, ...]
CoercedArguments: TypeAlias = tuple[Json, tuple[str, ...]]
"""A value, and what was changed in it."""
_TEXT_ONLY = frozenset({"string", "null"})
_MAX_DEPTH = 32
_MAX_CHANGES = 16
_MAX_TRIALS = 1000
_MAX_PARTS = 4000
"""Parts of the arguments that are looked at, each of which takes some 6 µs; the others stay as they are."""
_WRONG_PART = 4
"""How many parts one counts as that does not fit its schema and is not repaired: all its candidates were tried."""
_WORK = 20_000_000
"""Characters that are validated on trial, all in all: long arguments get fewer trials."""


def coerce_args(
    schema: Schema, args: dict[str, Json], length: int | None = None
) -> tuple[dict[str, Json], tuple[str, ...]]:
    """The arguments with what is sure mended, and what that was, as `days: string → integer`: never a value.

    Parameter by parameter: the others may still be wrong. The very same arguments where they are valid. `length` is
    that of their JSON text, if the caller knows it.
    """
    known = compiled(schema)
    if known is None or satisfies(schema, args):
        return args, ()
    try:
        length = len(write(args)) if length is None else length
    except RecursionError:
        return args, ()
    trials = min(_MAX_TRIALS, 10 + _WORK // (1 + length))
    mended, changes = _Mender(known, trials).arguments(args)
    if len(changes) > _MAX_CHANGES:
        changes = (*changes[:_MAX_CHANGES], f"and {len(changes) - _MAX_CHANGES} more")
    return mended, changes


class _Mender:
    """Mends the arguments of one call."""

    def __init__(self, known: CompiledSchema, trials: int) -> None:
        self._known = known
        self._shape = SchemaView(known.root)
        self._views: dict[tuple[int, ...], SchemaAlternatives] = {}
        self._parts_left = _MAX_PARTS
        self._trials = trials
        """What is left of the alternatives that may be tried."""

    def arguments(self, args: dict[str, Json]) -> tuple[dict[str, Json], tuple[str, ...]]:
        """The arguments as far as they can be mended."""
        root = (self._known.root,)
        view = self._shape.view(root)
        if view.unions:
            mended, changes = self._mend(root, args, ())
            if is_object(mended) and changes:
                return mended, changes
        return self._object(SchemaAlternatives(view.faces), args, ())

    def _mend(self, schemas: tuple[Json, ...], value: Json, path: Path) -> CoercedArguments:
        """The value as its schemas want it; the very same if it fits, or if nothing that is known makes it fit."""
        self._parts_left -= 1
        if self._parts_left >= 0 and len(path) <= _MAX_DEPTH and not self._fits(schemas, value):
            kinds = self._shape.kinds(schemas)
            for candidate, changes in self._candidates(kinds, self._view(schemas), value, path):
                if self._fits(schemas, candidate):
                    return candidate, changes
            self._parts_left -= _WRONG_PART - 1
        return value, ()

    def _view(self, schemas: tuple[Json, ...]) -> SchemaAlternatives:
        # All schemas are parts of the root, which lives as long as this: their identities are theirs alone.
        key = tuple(map(id, schemas))
        if key not in self._views:
            self._views[key] = self._shape.view(schemas)
        return self._views[key]

    def _fits(self, schemas: tuple[Json, ...], value: Json) -> bool:
        return all(self._known.fits(schema, value) for schema in schemas)

    def _candidates(
        self, kinds: frozenset[str], view: SchemaAlternatives, value: Json, path: Path
    ) -> Iterator[CoercedArguments]:
        """What may have been meant by a value that does not fit, the likeliest first."""
        place = path_of(path)
        if isinstance(value, str):
            if "string" in kinds:
                yield from self._respelled(view, value, place)
                return
            for read in readings(value, kinds):
                change = f"{place}: string → {kind_of(read)}"
                yield read, (change,)
                for inner, changes in self._parts(view, read, path):
                    yield inner, (change, *changes)
        elif isinstance(value, int) and kinds <= _TEXT_ONLY and "string" in kinds:
            # Not a float: 3.10 has become 3.1 before it comes here.
            yield write(value), (f"{place}: {kind_of(value)} → string",)
        yield from self._parts(view, value, path)
        if "array" in kinds and value is not None and not is_list(value):
            yield from self._wrapped(view, value, path)

    def _respelled(self, view: SchemaAlternatives, value: str, place: str) -> Iterator[CoercedArguments]:
        """The one listed text that differs only in case or in the space around it."""
        said = value.strip().casefold()
        alike = [text for text in self._shape.constants(view) if text.strip().casefold() == said]
        if len(alike) == 1:
            yield alike[0], (f"{place}: spelled as in the enum",)

    def _parts(self, view: SchemaAlternatives, value: Json, path: Path) -> Iterator[CoercedArguments]:
        """An object or a list whose parts are mended, for each alternative that its schema has."""
        if is_object(value):
            yield from (self._object(choice, value, path) for choice in self._choices(view))
        elif is_list(value):
            yield from (self._list(choice, value, path) for choice in self._choices(view))

    def _object(
        self, view: SchemaAlternatives, value: dict[str, Json], path: Path
    ) -> tuple[dict[str, Json], tuple[str, ...]]:
        names = self._renamed(view, value, path)
        mended: dict[str, Json] = {}
        changes: list[str] = []
        for said, part in value.items():
            name = names.get(said, said)
            if name != said:
                changes.append(f"parameter: {path_of((*path, said))} → {path_of((name,))}")
            mended[name], more = self._mend(view.property(name), part, (*path, name))
            changes += more
        return (mended, tuple(changes)) if changes else (value, ())

    def _renamed(self, view: SchemaAlternatives, value: JsonObject, path: Path) -> dict[str, str]:
        """What the unknown names mean. One that is only near needs a value that fits, too."""
        missing = [name for name in view.known if name not in value]
        unknown = [name for name in value if not view.describes(name)] if missing else []
        if not unknown:
            return {}
        nearly = missing if view.closed else [name for name in missing if name in view.required]
        found: dict[str, str] = {}
        for said, name, sure in match_names(unknown, missing, nearly):
            schemas = view.property(name)
            if sure or (self._try() and self._fits(schemas, self._mend(schemas, value[said], (*path, name))[0])):
                found[said] = name
        return found

    def _list(self, view: SchemaAlternatives, value: list[Json], path: Path) -> CoercedArguments:
        mended: list[Json] = []
        changes: list[str] = []
        for index, part in enumerate(value):
            if self._parts_left <= 0:
                mended += value[index:]
                break
            item, more = self._mend(view.item(index), part, (*path, index))
            mended.append(item)
            changes += more
        return (mended, tuple(changes)) if changes else (value, ())

    def _wrapped(self, view: SchemaAlternatives, value: Json, path: Path) -> Iterator[CoercedArguments]:
        """A list with the value as its one element, if it is said what an element is."""
        for choice in self._choices(view):
            schemas = choice.item(0)
            if "array" not in self._shape.kinds(choice.faces) or self._shape.kinds(schemas) == KINDS or not self._try():
                continue
            item, changes = self._mend(schemas, value, (*path, 0))
            if self._fits(schemas, item) and not _may_be_several(item):
                yield [item], (f"{path_of(path)}: {kind_of(value)} → array", *changes)

    def _choices(self, view: SchemaAlternatives) -> Iterator[SchemaAlternatives]:
        """The alternatives of a schema, as many as may still be tried."""
        if not view.unions:
            yield view
            return
        for choice in self._shape.choices(view):
            if not self._try():
                return
            yield choice

    def _try(self) -> bool:
        self._trials -= 1
        return self._trials >= 0


def _may_be_several(item: Json) -> bool:
    """Whether a text may be a list already, written in a way that cannot be read for sure; or no element at all."""
    return isinstance(item, str) and (not item.strip() or item.lstrip()[0] in "[{" or "," in item or "\n" in item)


def read_arguments(text: str) -> dict[str, Json] | None:
    """Arguments as an object, also where the object was written as a JSON string once more; None for anything else."""
    args = read_object(text)
    if args is not None:
        return args
    text = text.strip()
    inner = read_value(text, 0)
    whole = inner is not None and inner[1] == len(text)
    return read_object(inner[0]) if inner and whole and isinstance(inner[0], str) else None
