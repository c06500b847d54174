"""Simplifies a tool's JSON Schema to the keywords that every model server supports.

For servers that reject the client's schema. Only the request to the server changes: calls are still validated against
the client's schema. Pure, total and deterministic, so that the prompt stays the same from turn to turn.
"""

from __future__ import annotations

from forge_proxy.core.chat import Schema
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_DEEPEST = 10
"""Maximum levels of nesting; deeper values are unrestricted. Some builds of llama.cpp fail on deeper grammars."""
_MOST_VALUES = 10_000
_LARGEST = 2000
"""Maximum parts of one schema; without it, references to references could multiply without limit."""


def simplify_schema(schema: Schema) -> JsonObject:
    """Return the simplified schema of a tool's parameters: types, descriptions, enums and required names.

    Patterns, formats, bounds and all other keywords are dropped. References are resolved; an unresolvable one is
    unrestricted.
    """
    simplified = _Simplifier(schema).of(schema, 0, frozenset())
    return simplified if simplified.get("type") == "object" else {"type": "object"}


class _Simplifier:
    """Simplifies one schema recursively."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._parts = 0

    def of(self, schema: Json, depth: int, inside: frozenset[str]) -> dict[str, Json]:
        """Simplify a part. `inside` are the references being resolved: following one of them again would not end."""
        self._parts += 1
        if not is_object(schema) or depth > _DEEPEST or self._parts > _LARGEST:
            return {}
        while isinstance(reference := schema.get("$ref"), str):
            target = None if reference in inside else _resolve(self._root, reference)
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**target, **beside} if is_object(target) else beside
            inside |= {reference}
        if is_list(every := schema.get("allOf")):
            return self._all_of(schema, every, depth, inside)
        out: dict[str, Json] = {}
        if isinstance(description := schema.get("description"), str):
            out["description"] = description
        out |= self._simplify_type(schema, depth, inside)
        for key in ("anyOf", "oneOf"):
            if is_list(options := schema.get(key)) and options and "type" not in out:
                out["anyOf"] = [self.of(option, depth + 1, inside) for option in options]
        return out

    def _all_of(self, schema: JsonObject, every: list[Json], depth: int, inside: frozenset[str]) -> dict[str, Json]:
        """Merge the schemas of an `allOf`: their properties and required names together."""
        whole = self.of({key: value for key, value in schema.items() if key != "allOf"}, depth + 1, inside)
        properties: dict[str, Json] = {}
        required: list[Json] = []
        for part in (whole, *(self.of(one, depth + 1, inside) for one in every)):
            whole = {**part, **whole}
            properties |= fields if is_object(fields := part.get("properties")) else {}
            required += names if is_list(names := part.get("required")) else []
        if properties:
            whole |= {"type": "object", "properties": properties}
        if "type" in whole:
            whole.pop("anyOf", None)
        if "enum" in whole:  # an enum is sufficient, and simplifying the result again keeps nothing else
            whole = {key: whole[key] for key in ("description", "type", "enum") if key in whole}
            required = []
        if required:
            whole["required"] = [name for i, name in enumerate(required) if name not in required[:i]]
        return whole

    def _simplify_type(self, schema: JsonObject, depth: int, inside: frozenset[str]) -> dict[str, Json]:
        kinds = _types(schema)
        if values := _allowed_values(schema):
            return {"type": kinds[0], "enum": values} if len(kinds) == 1 else {"enum": values}
        if len(kinds) != 1:
            return {"anyOf": [self._of_kind(kind, schema, depth, inside) for kind in kinds]} if kinds else {}
        return self._of_kind(kinds[0], schema, depth, inside)

    def _of_kind(self, kind: str, schema: JsonObject, depth: int, inside: frozenset[str]) -> dict[str, Json]:
        out: dict[str, Json] = {"type": kind}
        if kind == "array" and (items := self.of(schema.get("items"), depth + 1, inside)):
            out["items"] = items
        fields = schema.get("properties")
        if kind == "object" and is_object(fields) and fields:
            out["properties"] = {name: self.of(part, depth + 1, inside) for name, part in fields.items()}
            if is_list(names := schema.get("required")):
                required: list[Json] = [name for name in names if name in fields]
                out |= {"required": required} if required else {}
        return out


def _allowed_values(schema: JsonObject) -> list[Json]:
    """Return the allowed values except null; empty if any of them is not a string, number or boolean."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_list(listed) and len(listed) > _MOST_VALUES:
        return []
    values: list[Json] = [value for value in listed if value is not None] if is_list(listed) else []
    return values if all(isinstance(value, str | int | float) for value in values) else []


def _types(schema: JsonObject) -> list[str]:
    """Return the stated or implied types, without `null` if there are others."""
    stated = schema.get("type")
    names = stated if is_list(stated) else [stated]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not known and "properties" in schema:
        return ["object"]
    return [name for name in known if name != "null"] or known


def _resolve(root: Json, reference: str) -> Json:
    """Resolve a reference within the same document; None for any other."""
    if not reference.startswith("#/"):
        return root if reference == "#" else None
    part = root
    for step in reference[2:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if not is_object(part) or key not in part:
            return None
        part = part[key]
    return part
