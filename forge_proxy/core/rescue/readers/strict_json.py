"""Reads an object inside a text: as strict JSON if possible, otherwise leniently.

Strict values are sliced from the text instead of serialized again: `1.0` stays `1.0`, and a long integer keeps all
digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from forge_proxy.core.jsontypes import Json, is_object, read_value, skip_space, write
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.readers.lenient_json import LenientValue, read_lenient


@dataclass(frozen=True)
class JsonValue:
    """A value; `source` is its text if it was read as strict JSON."""

    value: Json
    source: str | None = None

    @cached_property
    def text(self) -> str:
        """The value as JSON, exactly as written if it was strict JSON."""
        return self.source if self.source is not None else write(self.value)


@dataclass(frozen=True, slots=True)
class JsonMembers:
    """The members of an object in a text; `end` is the position after its closing brace."""

    values: dict[str, JsonValue]
    end: int
    text: str
    repairs: frozenset[str] = frozenset()
    open: bool = False
    """Whether the text ended before the object was complete."""

    def first(self, keys: tuple[str, ...]) -> JsonValue | None:
        """Return the value of the first of these keys that the object has; None if it has none."""
        return next((self.values[key] for key in keys if key in self.values), None)


def read_members(text: str, at: int, context: ParseContext) -> JsonMembers | None:
    """Read the object at `at`; None if it cannot be parsed. The last of equal keys wins, as in any JSON parser."""
    if not text.startswith("{", at):
        return None
    return read_strictly(text, at) or _read_broken(text, at, context)


def read_strictly(text: str, at: int) -> JsonMembers | None:
    """Read the strict JSON object at `at`; None if there is none."""
    start, values = at, dict[str, JsonValue]()
    at = skip_space(text, at + 1)
    if text.startswith("}", at):
        return JsonMembers(values, at + 1, text[start : at + 1])
    while True:
        key = read_value(text, at)
        if key is None or not isinstance(key[0], str):
            return None
        at = skip_space(text, key[1])
        if not text.startswith(":", at):
            return None
        begins = skip_space(text, at + 1)
        value = read_value(text, begins)
        if value is None:
            return None
        values[key[0]] = JsonValue(value[0], text[begins : value[1]])
        at = skip_space(text, value[1])
        if text.startswith("}", at):
            return JsonMembers(values, at + 1, text[start : at + 1])
        if not text.startswith(",", at):
            return None
        at = skip_space(text, at + 1)


def read_any(text: str, at: int, context: ParseContext) -> LenientValue | None:
    """Read a value of any type at `at`, strictly or leniently; None if it cannot be parsed."""
    strict = read_value(text, at)
    if strict:
        return LenientValue(strict[0], strict[1], frozenset(), open=False)
    if not context.may_try(1):
        return None
    length = context.skip_brackets(text, at) - at
    if not context.may_try(length):
        context.spend_effort(length // 4)  # the search for its end costs work as well
        return None
    loose = read_lenient(text, at)
    context.spend_effort((loose.end if loose else at + length) - at)
    return loose


def _read_broken(text: str, at: int, context: ParseContext) -> JsonMembers | None:
    loose = read_any(text, at, context)
    if loose and is_object(loose.value):
        values = {key: JsonValue(value) for key, value in loose.value.items()}
        return JsonMembers(values, loose.end, write(loose.value), loose.repairs, loose.open)
    context.may_recover_more = context.may_recover_more or context.repair is None
    return _repair(text, at, context)


def _repair(text: str, at: int, context: ParseContext) -> JsonMembers | None:
    if context.repair is None or not context.may_try(1):
        return None
    end = context.skip_brackets(text, at)
    context.spend_effort(end - at)
    repaired = context.repair(text[at:end])
    members = read_strictly(repaired, 0) if repaired else None
    return replace(members, end=end, repairs=frozenset({"general"})) if members else None


_OTHER_ITEMS = tuple('"[0123456789tfn-')
"""The first character of a list item that is not an object: such a list contains no calls."""


def read_objects(text: str, at: int, context: ParseContext) -> tuple[list[JsonMembers], int] | None:
    """Read one object, or an array of objects only, at `at`; return the objects and the position after it, or None.

    The array may lack commas or its closing bracket, or have a surplus closing bracket.
    """
    if not text.startswith("[", at):
        one = read_members(text, at, context)
        return ([one], one.end) if one else None
    objects: list[JsonMembers] = []
    at = skip_space(text, at + 1)
    while member := read_members(text, at, context):
        objects.append(member)
        at = member.end
        following = skip_space(text, at)
        if text.startswith((",", ";"), following):
            following = skip_space(text, following + 1)
        if text.startswith("]", following):
            at = following + 1
            after = skip_space(text, at)
            return objects, after + 1 if text.startswith("]", after) else at
        if not text.startswith("{", following):
            if following > at and text[following : following + 1] in _OTHER_ITEMS:
                return None
            break
        at = following
    return (objects, at) if objects else None
