"""Puts together the fields of deltas that have no type of their own: `refusal`, `logprobs`, `thinking_blocks`, ….

This belongs in `core` because the builders of `core.stream` and the stream gate merge such fields alike. Each piece
costs its own length, however much came before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any, TypeAlias

from forge_proxy.core.jsontypes import Json, JsonObject, is_object

_REPLACED = frozenset({"role", "type", "id", "object", "index", "name", "format"})
"""Fields that are repeated in every delta; every other text in a delta continues the one before it."""


class FieldsBuilder:
    """Merges objects: texts and lists continue, objects merge, the latest of any other value counts.

    Objects in a list that have an `index` continue the one with the same index. What was added is never changed.
    """

    def __init__(self, begun: JsonObject | None = None) -> None:
        self._fields: dict[str, _Value] = {**begun} if begun else {}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def add(self, piece: JsonObject) -> None:
        """Merge one more object into the fields."""
        fields = self._fields
        for key, value in piece.items():
            fields[key] = _merged(fields.get(key), value, key)

    def fields(self) -> dict[str, Json]:
        """Return the fields as merged so far."""
        return {key: _built(value) for key, value in self._fields.items()}


class _TextBuilder:
    def __init__(self, begun: str) -> None:
        self._text = StringIO()
        self._text.write(begun)

    def add(self, piece: str) -> None:
        self._text.write(piece)

    def text(self) -> str:
        return self._text.getvalue()


class _ListBuilder:
    def __init__(self, begun: list[Json]) -> None:
        self._items: list[_Value] = [*begun]
        self._places: dict[int, int] = {}
        """By `index`: where the latest object with it stands."""
        self._merged: set[int] = set()
        """Where objects stand that were merged of several: only these have to be built, and lists may be long."""
        self._note_places(begun, 0)

    def add(self, piece: list[Json]) -> None:
        length = len(self._items)
        appended: list[Json] = []
        for item in piece:
            index = item.get("index") if is_object(item) else None
            place = self._places.get(index) if isinstance(index, int) else None
            if place is None:
                appended.append(item)
            else:
                self._items[place] = _merged(self._items[place], item, "")
                self._merged.add(place)
        self._items += appended
        self._note_places(appended, length)

    def items(self) -> list[Json]:
        items: list[Any] = self._items.copy()
        for place in self._merged:
            items[place] = _built(items[place])
        return items

    def _note_places(self, items: list[Json], first: int) -> None:
        for place, item in enumerate(items, first):
            if is_object(item) and isinstance(index := item.get("index"), int):
                self._places[index] = place


_Value: TypeAlias = "Json | FieldsBuilder | _TextBuilder | _ListBuilder"


def _merged(before: _Value, value: Json, key: str) -> _Value:
    """Return both values as one: a builder once there is more than one piece."""
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


def _built(value: _Value) -> Json:
    match value:
        case FieldsBuilder():
            return value.fields()
        case _TextBuilder():
            return value.text()
        case _ListBuilder():
            return value.items()
        case _:
            return value
