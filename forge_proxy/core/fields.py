"""Merges the fields of deltas that have no type here: `refusal`, `logprobs`, `thinking_blocks`, ….

Used by the builders of `core.stream` and by the stream gate. The cost of a piece depends only on its own length, not on
the fields merged before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any, TypeAlias

from forge_proxy.core.jsontypes import Json, JsonObject, is_object

_REPLACED = frozenset({"role", "type", "id", "object", "index", "name", "format"})
"""Fields that are repeated in every delta; any other string continues the previous one."""


class FieldsBuilder:
    """Merges objects: strings and lists are concatenated, objects are merged, other values replace the previous one.

    An object in a list continues the one with the same `index`. Added objects are never modified.
    """

    def __init__(self, first: JsonObject | None = None) -> None:
        self._fields: dict[str, _Value] = {**first} if first else {}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def add(self, piece: JsonObject) -> None:
        """Merge another object into the fields."""
        fields = self._fields
        for key, value in piece.items():
            fields[key] = _merge(fields.get(key), value, key)

    def fields(self) -> dict[str, Json]:
        """Return the fields merged so far."""
        return {key: _build(value) for key, value in self._fields.items()}


class _TextBuilder:
    def __init__(self, first: str) -> None:
        self._text = StringIO()
        self._text.write(first)

    def add(self, piece: str) -> None:
        self._text.write(piece)

    def text(self) -> str:
        return self._text.getvalue()


class _ListBuilder:
    def __init__(self, first: list[Json]) -> None:
        self._items: list[_Value] = [*first]
        self._positions: dict[int, int] = {}
        """The position of the latest object with each `index`."""
        self._merged: set[int] = set()
        """The positions of objects that were merged from several: only these are built, because lists can be long."""
        self._index_items(first, 0)

    def add(self, piece: list[Json]) -> None:
        length = len(self._items)
        appended: list[Json] = []
        for item in piece:
            index = item.get("index") if is_object(item) else None
            position = self._positions.get(index) if isinstance(index, int) else None
            if position is None:
                appended.append(item)
            else:
                self._items[position] = _merge(self._items[position], item, "")
                self._merged.add(position)
        self._items += appended
        self._index_items(appended, length)

    def items(self) -> list[Json]:
        items: list[Any] = self._items.copy()
        for position in self._merged:
            items[position] = _build(items[position])
        return items

    def _index_items(self, items: list[Json], start: int) -> None:
        for position, item in enumerate(items, start):
            if is_object(item) and isinstance(index := item.get("index"), int):
                self._positions[index] = position


_Value: TypeAlias = "Json | FieldsBuilder | _TextBuilder | _ListBuilder"


def _merge(before: _Value, value: Json, key: str) -> _Value:
    """Return both values merged: a builder as soon as there is more than one piece."""
    match value:
        case None:
            return before
        case str() if isinstance(before, str | _TextBuilder):
            if key in _REPLACED:
                return value
            before = _TextBuilder(before) if isinstance(before, str) else before
            before.add(value)
            return before
        case list() if isinstance(before, list | _ListBuilder):
            before = _ListBuilder(before) if isinstance(before, list) else before
            before.add(value)
            return before
        case Mapping() if isinstance(before, Mapping | FieldsBuilder):
            before = FieldsBuilder(before) if isinstance(before, Mapping) else before
            before.add(value)
            return before
        case _:
            return value


def _build(value: _Value) -> Json:
    match value:
        case FieldsBuilder():
            return value.fields()
        case _TextBuilder():
            return value.text()
        case _ListBuilder():
            return value.items()
        case _:
            return value
