"""Gives raw text its type: forms like `<parameter=days>3</parameter>` write every value as text, only a schema tells.

Called where calls in such forms are read. What is allowed to be nothing but a text stays as it is, to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.parameters import resolve_parameter
from forge_proxy.core.guardrails.schema_view import KINDS, SchemaAlternatives, SchemaView
from forge_proxy.core.guardrails.spelling import readings
from forge_proxy.core.jsontypes import Json, read_value
from forge_proxy.core.rescue.readers.child_tags import read_children

_MAX_DEPTH = 32
_ITEM = "item"


def type_arguments(tool_schema: Schema, args: dict[str, Json], raw: Collection[str]) -> dict[str, Json]:
    """The arguments with those whose names are in `raw` typed; names are left as they were said."""
    typer = _Typer(tool_schema)
    return {
        name: typer.value(typer.property((tool_schema,), name), value)
        if name in raw and isinstance(value, str)
        else value
        for name, value in args.items()
    }


def _unescaped(text: str, kinds: Collection[str]) -> tuple[Json, ...]:
    """An object or list whose quotes were escaped, as if it stood inside of a string."""
    read = read_value(f'"{text.strip()}"', 0) if text.lstrip().startswith(("{\\", "[{\\", '[\\"')) else None
    return readings(read[0], {"object", "array"} & {*kinds}) if read and isinstance(read[0], str) else ()


class _Typer:
    """Types the values of one call."""

    def __init__(self, root: Schema) -> None:
        self._shape = SchemaView(root)

    def value(self, schemas: tuple[Json, ...], text: str, depth: int = 0) -> Json:
        """What the text stands for; the text itself where it may be one and nothing else fits."""
        kinds = self._shape.kinds(schemas)
        if not schemas or kinds <= {"string"}:
            return text
        anything = kinds == KINDS  # then digits may as well be text
        for read in readings(text, kinds - {"integer", "number"} if anything else kinds) or _unescaped(text, kinds):
            return read
        if anything:
            return text
        children = read_children(text) if kinds & {"object", "array"} and depth < _MAX_DEPTH else None
        if not children:
            return text
        names = {name for name, _ in children}
        if "array" in kinds and len(names) == 1 and ("object" not in kinds or len(children) > 1 or _ITEM in names):
            return self._list(schemas, [content for _, content in children], depth)
        return self._object(schemas, children, depth) if "object" in kinds else text

    def property(self, schemas: tuple[Json, ...], name: str) -> tuple[Json, ...]:
        """The schemas of a property, also under a name that is only alike."""
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
            of_it = self.property(schemas, name)
            once = len(contents) == 1
            typed[name] = self.value(of_it, contents[0], depth + 1) if once else self._list(of_it, contents, depth + 1)
        return typed

    def _part(
        self, schemas: tuple[Json, ...], find: Callable[[SchemaAlternatives], tuple[Json, ...]]
    ) -> tuple[Json, ...]:
        """The schemas of a part; where the whole has alternatives, one that allows what each of them does."""
        view = self._shape.view(schemas)
        if not view.unions:
            return find(view)
        found = find(self._shape.flat(view))
        return ({"anyOf": [*found]},) if found else ()
