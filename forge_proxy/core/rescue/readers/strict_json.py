"""Reads an object that stands somewhere in a text: strictly if it can be, else as models break it.

Strictly read values are sliced out of the text rather than printed again: a model's `1.0` stays `1.0`, a long integer
stays whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from forge_proxy.core.jsontypes import Json, is_object, read_value, skip_space, write
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.readers.lenient_json import LenientValue, read_loose


@dataclass(frozen=True)
class JsonValue:
    """A value; `said` is its text where it stands in one that was read strictly."""

    value: Json
    said: str | None = None

    @cached_property
    def text(self) -> str:
        """The value as JSON, to the letter where it was read strictly."""
        return self.said if self.said is not None else write(self.value)


@dataclass(frozen=True, slots=True)
class JsonMembers:
    """The members of an object in a text; `end` is the place after its closing brace."""

    values: dict[str, JsonValue]
    end: int
    text: str
    repairs: frozenset[str] = frozenset()
    open: bool = False
    """Whether the text ended before the object did."""

    def first(self, keys: tuple[str, ...]) -> JsonValue | None:
        """The value of the first of these keys that the object has."""
        return next((self.values[key] for key in keys if key in self.values), None)


def read_members(text: str, at: int, look: ParseContext) -> JsonMembers | None:
    """The object at `at`; None if there is none that can be read. The last of equal keys counts, as for any reader."""
    if not text.startswith("{", at):
        return None
    return read_strictly(text, at) or _read_broken(text, at, look)


def read_strictly(text: str, at: int) -> JsonMembers | None:
    """The strict JSON object at `at`."""
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


def read_any(text: str, at: int, look: ParseContext) -> LenientValue | None:
    """A value of any kind at `at`, strictly or as models break it."""
    strict = read_value(text, at)
    if strict:
        return LenientValue(strict[0], strict[1], frozenset(), open=False)
    if not look.may_try(1):
        return None
    length = look.past(text, at) - at
    if not look.may_try(length):
        look.spend(length // 4)  # to have looked for its end was work as well
        return None
    loose = read_loose(text, at)
    look.spend((loose.end if loose else at + length) - at)
    return loose


def _read_broken(text: str, at: int, look: ParseContext) -> JsonMembers | None:
    loose = read_any(text, at, look)
    if loose and is_object(loose.value):
        values = {key: JsonValue(value) for key, value in loose.value.items()}
        return JsonMembers(values, loose.end, write(loose.value), loose.repairs, loose.open)
    look.unread = look.unread or look.mend is None
    return _mended(text, at, look)


def _mended(text: str, at: int, look: ParseContext) -> JsonMembers | None:
    if look.mend is None or not look.may_try(1):
        return None
    end = look.past(text, at)
    look.spend(end - at)
    mended = look.mend(text[at:end])
    members = read_strictly(mended, 0) if mended else None
    return replace(members, end=end, repairs=frozenset({"general"})) if members else None


_OTHER_ITEMS = tuple('"[0123456789tfn-')
"""How an item of a list begins that is no object: then the list is none of calls."""


def read_objects(text: str, at: int, look: ParseContext) -> tuple[list[JsonMembers], int] | None:
    """One object or an array of nothing but objects at `at`, and the place after it.

    A list may lack commas and its closing bracket, or close more often than it opened.
    """
    if not text.startswith("[", at):
        one = read_members(text, at, look)
        return ([one], one.end) if one else None
    found: list[JsonMembers] = []
    at = skip_space(text, at + 1)
    while member := read_members(text, at, look):
        found.append(member)
        at = member.end
        following = skip_space(text, at)
        if text.startswith((",", ";"), following):
            following = skip_space(text, following + 1)
        if text.startswith("]", following):
            at = following + 1
            after = skip_space(text, at)
            return found, after + 1 if text.startswith("]", after) else at
        if not text.startswith("{", following):
            if following > at and text[following : following + 1] in _OTHER_ITEMS:
                return None
            break
        at = following
    return (found, at) if found else None
