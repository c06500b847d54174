"""Reads a JSON object that stands somewhere in a text, and keeps where each of its values stands.

Values are sliced out of the text rather than printed again: a model's `1.0` stays `1.0`, a long integer stays whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.core.jsontypes import Json, read_value, skip_space


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its text."""

    value: Json
    text: str


@dataclass(frozen=True, slots=True)
class Members:
    """The members of an object in a text; `end` is the place after its closing brace."""

    values: dict[str, Value]
    end: int

    def first(self, keys: tuple[str, ...]) -> Value | None:
        """The value of the first of these keys that the object has."""
        return next((self.values[key] for key in keys if key in self.values), None)


def read_members(text: str, at: int) -> Members | None:
    """The strict JSON object at `at`; None if there is none. The last of equal keys counts, as for any JSON reader."""
    if not text.startswith("{", at):
        return None
    values: dict[str, Value] = {}
    at = skip_space(text, at + 1)
    if text.startswith("}", at):
        return Members(values, at + 1)
    while True:
        key = read_value(text, at)
        if key is None or not isinstance(key[0], str):
            return None
        at = skip_space(text, key[1])
        if not text.startswith(":", at):
            return None
        start = skip_space(text, at + 1)
        value = read_value(text, start)
        if value is None:
            return None
        values[key[0]] = Value(value[0], text[start : value[1]])
        at = skip_space(text, value[1])
        if text.startswith("}", at):
            return Members(values, at + 1)
        if not text.startswith(",", at):
            return None
        at = skip_space(text, at + 1)


def read_objects(text: str, at: int) -> tuple[list[Members], int] | None:
    """One object, or an array of nothing but objects, at `at`, and the place after it."""
    if not text.startswith("[", at):
        one = read_members(text, at)
        return ([one], one.end) if one else None
    found: list[Members] = []
    at = skip_space(text, at + 1)
    while True:
        member = read_members(text, at)
        if member is None:
            return None
        found.append(member)
        at = skip_space(text, member.end)
        if text.startswith("]", at):
            return found, at + 1
        if not text.startswith(",", at):
            return None
        at = skip_space(text, at + 1)
