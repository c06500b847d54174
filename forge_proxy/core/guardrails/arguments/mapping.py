"""Completes a recovered call's arguments by the schema of its tool: types of raw text, names of positional arguments.

Forms such as `<parameter=days>3</parameter>` write every value as text, so only the schema determines its type. A value
that may only be a string is kept character by character.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.arguments.parameter_names import resolve_parameter
from forge_proxy.core.guardrails.arguments.spelling import parse_spelled
from forge_proxy.core.guardrails.schema.view import KINDS, SchemaAlternatives, SchemaView
from forge_proxy.core.jsontypes import Json, is_list, is_object, read_object, read_value, write
from forge_proxy.core.rescue import RecoveredCall
from forge_proxy.core.rescue.readers.nested_tags import read_children

_WRAPPERS = ("arguments", "args", "parameters", "input", "properties")
_MAX_DEPTH = 32
_ITEM = "item"


def map_arguments(schema: Schema, found: RecoveredCall) -> str:
    """Return the arguments as JSON text, unchanged if the call's form states all types and names."""
    args = found.call.args()
    if args is None:
        return found.call.arguments
    typed = type_arguments(schema, args, found.untyped) if found.untyped else args
    mapped = _unwrap(schema, _name_positional(schema, typed, found.positional))
    return found.call.arguments if mapped is args else write(mapped)


def type_arguments(tool_schema: Schema, args: dict[str, Json], untyped: Collection[str]) -> dict[str, Json]:
    """Return the arguments with the values of those in `untyped` typed by the schema; names are not changed."""
    typer = _ValueTyper(tool_schema)
    return {
        name: typer.value(typer.property((tool_schema,), name), value)
        if name in untyped and isinstance(value, str)
        else value
        for name, value in args.items()
    }


def _name_positional(schema: Schema, args: dict[str, Json], positional: int) -> dict[str, Json]:
    """Name positional arguments by the parameters in order, required ones first.

    Returns the arguments unchanged if there are more of them than parameters.
    """
    if not positional:
        return args
    free = [name for name in _parameters(schema) if name not in args]
    if positional > len(free):
        return args
    names = {str(place): free[place] for place in range(positional)}
    return {names.get(key, key): value for key, value in args.items()}


def _parameters(schema: Schema) -> list[str]:
    properties = schema.get("properties") if is_object(schema) else None
    required = schema.get("required") if is_object(schema) else None
    known = list(properties) if is_object(properties) else []
    first = [name for name in required if isinstance(name, str) and name in known] if is_list(required) else []
    return [*first, *(name for name in known if name not in first)] if len(first) == 1 else known


def _unwrap(schema: Schema, args: dict[str, Json]) -> dict[str, Json]:
    """Unwrap arguments that are nested in a single parameter that the tool does not have."""
    if len(args) != 1:
        return args
    ((key, value),) = args.items()
    if key not in _WRAPPERS or key in _parameters(schema):
        return args
    if isinstance(value, str):
        return read_object(value) or args
    return value if is_object(value) else args


def _parse_escaped(text: str, kinds: Collection[str]) -> tuple[Json, ...]:
    """Parse an object or list whose quotes are escaped, as if it were inside a JSON string; empty for anything else."""
    read = read_value(f'"{text.strip()}"', 0) if text.lstrip().startswith(("{\\", "[{\\", '[\\"')) else None
    return parse_spelled(read[0], {"object", "array"} & {*kinds}) if read and isinstance(read[0], str) else ()


class _ValueTyper:
    """Types the values of one call."""

    def __init__(self, root: Schema) -> None:
        self._view = SchemaView(root)

    def value(self, schemas: tuple[Json, ...], text: str, depth: int = 0) -> Json:
        """Return the value that the text represents; the text itself if it may be a string and no other type fits."""
        kinds = self._view.kinds(schemas)
        if not schemas or kinds <= {"string"}:
            return text
        is_any = kinds == KINDS  # then digits may as well be a string
        value_kinds = kinds - {"integer", "number"} if is_any else kinds
        for parsed in parse_spelled(text, value_kinds) or _parse_escaped(text, kinds):
            return parsed
        if is_any:
            return text
        if not text.strip() and "string" not in kinds and len(kinds & {"array", "object"}) == 1:  # an empty element
            return [] if "array" in kinds else {}
        children = read_children(text) if kinds & {"object", "array"} and depth < _MAX_DEPTH else None
        if not children:
            return text
        names = {name for name, _ in children}
        if "array" in kinds and len(names) == 1 and ("object" not in kinds or len(children) > 1 or _ITEM in names):
            return self._list(schemas, [content for _, content in children], depth)
        return self._object(schemas, children, depth) if "object" in kinds else text

    def property(self, schemas: tuple[Json, ...], name: str) -> tuple[Json, ...]:
        """Return the schemas of a property, also if its name differs in case or separators."""
        return self._part(schemas, lambda view: view.property(resolve_parameter(name, view.known)))

    def _list(self, schemas: tuple[Json, ...], contents: list[str], depth: int) -> list[Json]:
        return [
            self.value(self._part(schemas, lambda view, at=index: view.item(at)), content, depth + 1)
            for index, content in enumerate(contents)
        ]

    def _object(self, schemas: tuple[Json, ...], children: list[tuple[str, str]], depth: int) -> dict[str, Json]:
        grouped: dict[str, list[str]] = {}
        for name, content in children:
            grouped.setdefault(name, []).append(content)
        typed: dict[str, Json] = {}
        for name, contents in grouped.items():
            part = self.property(schemas, name)
            is_single = len(contents) == 1
            typed[name] = (
                self.value(part, contents[0], depth + 1) if is_single else self._list(part, contents, depth + 1)
            )
        return typed

    def _part(
        self, schemas: tuple[Json, ...], find: Callable[[SchemaAlternatives], tuple[Json, ...]]
    ) -> tuple[Json, ...]:
        """Return the schemas of a part; if the whole has alternatives, one schema that allows what any of them does."""
        view = self._view.view(schemas)
        if not view.unions:
            return find(view)
        found = find(self._view.flat(view))
        return ({"anyOf": [*found]},) if found else ()
