"""Inspects a JSON Schema: the types it allows for a value, and the subschemas of the value's parts.

Used by `arguments`, which infers the intended value. Local references are followed, and cycles end. Whether a value is
valid is decided only by `compiled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from forge_proxy.core.guardrails.schema.compiled import matches_pattern
from forge_proxy.core.jsontypes import Json, is_list, is_object, kind_of

KINDS = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""All types of values; `number` means the numbers that are not integers."""
_MAX_FACES = 64
_MAX_DEPTH = 32
_MAX_CONSTANTS = 1000


def kind_in_schema(value: Json) -> str:
    """Return the type of a value in JSON Schema, where 3.0 is an integer."""
    return "integer" if isinstance(value, float) and value.is_integer() else kind_of(value)


@dataclass(frozen=True, slots=True)
class SchemaAlternatives:
    """The schemas that apply to one value: each of `faces`, and one branch of each of `unions`."""

    faces: tuple[dict[str, Json], ...]
    unions: tuple[tuple[Json, ...], ...] = ()

    @property
    def known(self) -> dict[str, None]:
        """The names of the described properties."""
        return {name: None for face in self.faces for name in _members(face, "properties")}

    @property
    def required(self) -> frozenset[str]:
        """The names of the required properties."""
        lists = (face.get("required") for face in self.faces)
        return frozenset(name for names in lists if is_list(names) for name in names if isinstance(name, str))

    @property
    def closed(self) -> bool:
        """Whether undescribed properties are forbidden."""
        return any(
            face.get(key) is False for face in self.faces for key in ("additionalProperties", "unevaluatedProperties")
        )

    def describes(self, name: str) -> bool:
        """Whether a property of that name is described, by its name or by a pattern."""
        patterns = (pattern for face in self.faces for pattern in _members(face, "patternProperties"))
        return name in self.known or any(matches_pattern(pattern, name) for pattern in patterns)

    def property(self, name: str) -> tuple[Json, ...]:
        """Return the schemas of the property of that name."""
        return tuple(schema for face in self.faces for schema in _of_property(face, name))

    def item(self, index: int) -> tuple[Json, ...]:
        """Return the schemas of an array element."""
        return tuple(schema for face in self.faces for schema in _of_item(face, index))


class SchemaView:
    """Inspects one schema and its subschemas."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._kinds: dict[int, tuple[Json, frozenset[str]]] = {}
        """Cached types by the id of the schema. The schema itself is kept, so that its id is not reused."""

    def view(self, schemas: Iterable[Json], known: SchemaAlternatives = SchemaAlternatives(())) -> SchemaAlternatives:
        """Combine schemas that apply to the same value, in addition to those in `known`."""
        faces, unions = list(known.faces), list(known.unions)
        seen = {id(face) for face in faces}
        pending = [*schemas][::-1]
        while pending and len(faces) < _MAX_FACES:
            schema = pending.pop()
            if not is_object(schema) or id(schema) in seen:
                continue
            seen.add(id(schema))
            faces.append(schema)
            unions += _unions_in(schema)
            every = schema.get("allOf")
            pending += every[::-1] if is_list(every) else []
            reference = schema.get("$ref")
            if isinstance(reference, str):
                pending.append(self._follow(reference))
        return SchemaAlternatives(tuple(faces), tuple(unions))

    def choices(self, view: SchemaAlternatives) -> Iterator[SchemaAlternatives]:
        """Yield the view with one branch of each union, for each combination. There may be very many."""
        if not view.unions:
            yield view
            return
        first, *others = view.unions
        for branch in first:
            yield from self.choices(self.view((branch,), SchemaAlternatives(view.faces, tuple(others))))

    def flat(self, view: SchemaAlternatives) -> SchemaAlternatives:
        """Return the view with all branches of all unions at once, to find every schema that may apply to a part."""
        while view.unions and len(view.faces) < _MAX_FACES:
            branches = [branch for union in view.unions for branch in union]
            view = self.view(branches, SchemaAlternatives(view.faces))
        return SchemaAlternatives(view.faces)

    def kinds(self, schemas: Iterable[Json]) -> frozenset[str]:
        """Return the types that all the schemas allow."""
        allowed = KINDS
        for schema in schemas:
            allowed &= self._kinds_of(schema, 0)
        return allowed

    def constants(self, view: SchemaAlternatives) -> set[str]:
        """Return the strings that `enum` and `const` allow."""
        listed: list[Json] = []
        for face in self.flat(view).faces:
            options = face.get("enum")
            listed += options if is_list(options) else []
            listed.append(face.get("const"))
        return {value for value in listed[:_MAX_CONSTANTS] if isinstance(value, str)}

    def _kinds_of(self, schema: Json, depth: int) -> frozenset[str]:
        if schema is False:
            return frozenset()
        if not is_object(schema) or depth > _MAX_DEPTH:
            return KINDS
        known = self._kinds.get(id(schema))
        if known:
            return known[1]
        self._kinds[id(schema)] = schema, KINDS  # ends a recursive reference
        view = self.view((schema,))
        allowed = KINDS
        for face in view.faces:
            allowed &= _own_kinds(face)
        for union in view.unions:
            of_union: frozenset[str] = frozenset()
            for branch in union:
                of_union |= self._kinds_of(branch, depth + 1)
            allowed &= of_union
        self._kinds[id(schema)] = schema, allowed
        return allowed

    def _follow(self, reference: str) -> Json:
        """Resolve a local reference; None, which restricts nothing, if it cannot be resolved."""
        if not reference.startswith("#"):
            return None
        found = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(found):
                found = found.get(name)
            elif is_list(found) and name.isdecimal() and len(name) < 6 and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found if reference == "#" or reference.startswith("#/") else None


def _own_kinds(face: dict[str, Json]) -> frozenset[str]:
    """Return the types that `type`, `enum` and `const` allow."""
    allowed = KINDS
    wanted = face.get("type")
    named = {kind for kind in (wanted if is_list(wanted) else [wanted]) if isinstance(kind, str)} & KINDS
    if named:
        allowed &= named | ({"integer"} if "number" in named else set())
    options = face.get("enum")
    if is_list(options) and options:
        allowed &= {kind_in_schema(option) for option in options}
    if "const" in face:
        allowed &= {kind_in_schema(face["const"])}
    return allowed


def _unions_in(face: dict[str, Json]) -> list[tuple[Json, ...]]:
    found = (face.get(key) for key in ("anyOf", "oneOf"))
    return [tuple(branches) for branches in found if is_list(branches) and branches]


def _members(face: dict[str, Json], keyword: str) -> dict[str, Json]:
    members = face.get(keyword)
    return members if is_object(members) else {}


def _of_property(face: dict[str, Json], name: str) -> list[Json]:
    described = _members(face, "properties")
    found = [described[name]] if name in described else []
    found += [
        schema for pattern, schema in _members(face, "patternProperties").items() if matches_pattern(pattern, name)
    ]
    if not found and "additionalProperties" in face:
        return [face["additionalProperties"]]
    return found


def _of_item(face: dict[str, Json], index: int) -> list[Json]:
    items = face.get("items")
    first = items if is_list(items) else face.get("prefixItems")  # in drafts up to 2019, and in later ones
    if is_list(first) and index < len(first):
        return [first[index]]
    rest = face.get("additionalItems") if is_list(items) else items
    return [] if rest is None else [rest]
