"""What a JSON Schema says of a place in a value: the kinds allowed there, and the schemas of the parts of it.

Called by `coerce` and `untyped`, which guess at what was meant. Local references are followed, cycles end. Whether a
value is valid is never decided here: `schema` does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from forge_proxy.core.guardrails.schema import matches
from forge_proxy.core.jsontypes import Json, is_list, is_object, kind_of

KINDS = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""All kinds of value; `number` stands for those that are no integers."""
_MAX_FACES = 64
_MAX_DEPTH = 32
_MAX_CONSTANTS = 1000


def kind_in_schema(value: Json) -> str:
    """The kind of a value as a schema counts it: 3.0 is an integer."""
    return "integer" if isinstance(value, float) and value.is_integer() else kind_of(value)


@dataclass(frozen=True, slots=True)
class SchemaAlternatives:
    """All that holds for one value: `faces` each by itself, and of each of `unions` one branch."""

    faces: tuple[dict[str, Json], ...]
    unions: tuple[tuple[Json, ...], ...] = ()

    @property
    def known(self) -> dict[str, None]:
        """The names of the properties that are described."""
        return {name: None for face in self.faces for name in _members(face, "properties")}

    @property
    def required(self) -> frozenset[str]:
        """The names that must be there."""
        lists = (face.get("required") for face in self.faces)
        return frozenset(name for names in lists if is_list(names) for name in names if isinstance(name, str))

    @property
    def closed(self) -> bool:
        """Whether properties that are not described are forbidden."""
        return any(
            face.get(key) is False for face in self.faces for key in ("additionalProperties", "unevaluatedProperties")
        )

    def describes(self, name: str) -> bool:
        """Whether the property of that name is meant to be there."""
        patterns = (pattern for face in self.faces for pattern in _members(face, "patternProperties"))
        return name in self.known or any(matches(pattern, name) for pattern in patterns)

    def property(self, name: str) -> tuple[Json, ...]:
        """The schemas of the property of that name."""
        return tuple(schema for face in self.faces for schema in _of_property(face, name))

    def item(self, index: int) -> tuple[Json, ...]:
        """The schemas of an element."""
        return tuple(schema for face in self.faces for schema in _of_item(face, index))


class SchemaView:
    """Reads one schema and what is inside it."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._kinds: dict[int, tuple[Json, frozenset[str]]] = {}
        """By identity, with the schema, so that no other takes its place."""

    def view(self, schemas: Iterable[Json], known: SchemaAlternatives = SchemaAlternatives(())) -> SchemaAlternatives:
        """What these schemas say together, with what is `known` already."""
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
        """The view with one branch of each union, for each way to choose them. There may be very many."""
        if not view.unions:
            yield view
            return
        first, *others = view.unions
        for branch in first:
            yield from self.choices(self.view((branch,), SchemaAlternatives(view.faces, tuple(others))))

    def flat(self, view: SchemaAlternatives) -> SchemaAlternatives:
        """The view with all branches of all unions at once: for finding what may be said of a part at all."""
        while view.unions and len(view.faces) < _MAX_FACES:
            branches = [branch for union in view.unions for branch in union]
            view = self.view(branches, SchemaAlternatives(view.faces))
        return SchemaAlternatives(view.faces)

    def kinds(self, schemas: Iterable[Json]) -> frozenset[str]:
        """The kinds of value that the schemas allow together."""
        allowed = KINDS
        for schema in schemas:
            allowed &= self._kinds_of(schema, 0)
        return allowed

    def constants(self, view: SchemaAlternatives) -> set[str]:
        """The texts that are listed as allowed ones."""
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
        self._kinds[id(schema)] = schema, KINDS  # for where it is met inside itself
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
        """The schema that a local reference means; None, which says nothing, for one that leads nowhere."""
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
    """What `type`, `enum` and `const` say."""
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
    found += [schema for pattern, schema in _members(face, "patternProperties").items() if matches(pattern, name)]
    if not found and "additionalProperties" in face:
        return [face["additionalProperties"]]
    return found


def _of_item(face: dict[str, Json], index: int) -> list[Json]:
    items = face.get("items")
    first = items if is_list(items) else face.get("prefixItems")  # as the drafts up to 2019 wrote it, and since
    if is_list(first) and index < len(first):
        return [first[index]]
    rest = face.get("additionalItems") if is_list(items) else items
    return [] if rest is None else [rest]
