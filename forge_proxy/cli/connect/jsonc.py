"""Edits JSON with comments in place: what is not changed keeps its comments, order and layout. Pure.

For `write.py`. Reads what editors call JSONC: JSON with `//` and `/* */` comments and trailing commas.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast

from forge_proxy.core.jsontypes import DECODER

_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_REST_OF_LINE = re.compile(r",?[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/[ \t]*)?(?=\r?\n)")
_DEEPEST = 200

JsonDict = dict[str, Any]


@dataclass(slots=True)
class _Node:
    """A value and the part of the text that it takes up."""

    start: int
    end: int = 0
    value: Any = None
    members: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    first_key: int = 0
    last_end: int = 0
    """The end of the last value of an object."""
    has_trailing_comma: bool = False

    @property
    def is_object(self) -> bool:
        """Whether the value is an object, which may be empty."""
        return isinstance(self.value, dict)


def read_jsonc(text: str) -> Any:
    """The value of a text; an empty object if it holds comments only. Raises `ValueError`."""
    node = _read_document(text)
    return {} if node is None else node.value


def edit_jsonc(text: str, wanted: JsonDict) -> str:
    """The text with the values of `wanted`, which holds all of its keys. Raises `ValueError`."""
    node = _read_document(text)
    if node is None:
        return f"{text.rstrip()}\n{json.dumps(wanted, indent=2, ensure_ascii=False)}\n".lstrip("\n")
    if not node.is_object:
        raise ValueError("it contains no object")
    edits = _Editor(text, node).edits_of(node, wanted)
    for start, end, part in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + part + text[end:]
    if read_jsonc(text) != wanted:
        raise ValueError("it could not be edited in place")
    return text


def _read_document(text: str) -> _Node | None:
    at = _skip(text, 0)
    if at == len(text):
        return None
    node = _read(text, at, 0)
    if (rest := _skip(text, node.end)) != len(text):
        raise _fault(text, rest, "expected the end of the file")
    return node


def _read(text: str, at: int, depth: int) -> _Node:
    if depth > _DEEPEST:
        raise _fault(text, at, f"nested deeper than {_DEEPEST} levels")
    if text.startswith("{", at):
        return _read_object(text, at, depth)
    if text.startswith("[", at):
        return _read_array(text, at, depth)
    try:
        value, end = DECODER.raw_decode(text, at)
    except ValueError as exc:
        raise _fault(text, at, "expected a JSON value") from exc
    return _Node(at, end, value)


def _read_object(text: str, at: int, depth: int) -> _Node:
    node = _Node(at)
    at = _skip(text, at + 1)
    node.first_key = at
    while not text.startswith("}", at):
        if not text.startswith('"', at):
            raise _fault(text, at, "expected a key in double quotes")
        key = _read(text, at, depth)
        at = _skip(text, key.end)
        if not text.startswith(":", at):
            raise _fault(text, at, "expected a colon")
        member = _read(text, _skip(text, at + 1), depth + 1)
        node.members[str(key.value)] = member
        node.last_end = member.end
        at, node.has_trailing_comma = _skip_comma(text, member.end, "}")
    node.end, node.value = at + 1, {key: member.value for key, member in node.members.items()}
    return node


def _read_array(text: str, at: int, depth: int) -> _Node:
    node, values = _Node(at), list[Any]()
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        value = _read(text, at, depth + 1)
        values.append(value.value)
        at, _ = _skip_comma(text, value.end, "]")
    node.end, node.value = at + 1, values
    return node


def _skip_comma(text: str, at: int, closing: str) -> tuple[int, bool]:
    """The place after a value and its comma, and whether there was one."""
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1), True
    if not text.startswith(closing, at):
        raise _fault(text, at, f"expected a comma or {closing}")
    return at, False


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _fault(text: str, at: int, why: str) -> ValueError:
    line = text.count("\n", 0, at) + 1
    return ValueError(f"line {line}, column {at - text.rfind(chr(10), 0, at)}: {why}")


class _Editor:
    """Finds the text to replace or insert."""

    def __init__(self, text: str, root: _Node) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._unit = self._indent_at(root.first_key) or "  "

    def edits_of(self, node: _Node, wanted: JsonDict) -> list[tuple[int, int, str]]:
        """Start, end and new text of each change."""
        edits: list[tuple[int, int, str]] = []
        added: JsonDict = {}
        for key, value in wanted.items():
            member = node.members.get(key)
            if member is None:
                added[key] = value
            elif member.is_object and isinstance(value, dict):
                edits += self.edits_of(member, cast("JsonDict", value))
            elif json.dumps(member.value) != json.dumps(value):
                indent = self._indent_at(self._line_start_text(member.start))
                edits.append((member.start, member.end, self._dump(value, indent)))
        return edits + (self._insert(node, added) if added else [])

    def _insert(self, node: _Node, added: JsonDict) -> list[tuple[int, int, str]]:
        if not node.members:
            outer = self._indent_at(self._line_start_text(node.start))
            lines = self._members(added, outer + self._unit)
            return [(node.start + 1, node.start + 1, f"{lines}{self._newline}{outer}")]
        comma = [] if node.has_trailing_comma else [(node.last_end, node.last_end, ",")]
        if self._newline not in self._text[node.last_end : node.end]:
            at = self._text.index(",", node.last_end) + 1 if node.has_trailing_comma else node.last_end
            one_line = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in added.items())
            return [
                (at, at, f" {one_line}"),
                *comma,
            ]  # of two edits at one place, the later one comes first in the text
        rest = _REST_OF_LINE.match(self._text, node.last_end)
        fits = rest is not None and rest[0].startswith(",") == node.has_trailing_comma
        at = rest.end() if rest is not None and fits else self._after_comma(node)
        indent = self._indent_at(node.first_key) or (self._indent_at(self._line_start_text(node.start)) + self._unit)
        return [(at, at, self._members(added, indent) + ("," if node.has_trailing_comma else "")), *comma]

    def _after_comma(self, node: _Node) -> int:
        at = _skip(self._text, node.last_end)
        return at + 1 if node.has_trailing_comma else node.last_end

    def _members(self, added: JsonDict, indent: str) -> str:
        start = f"{self._newline}{indent}"
        return ",".join(f"{start}{json.dumps(key)}: {self._dump(value, indent)}" for key, value in added.items())

    def _dump(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self._unit, ensure_ascii=False).split("\n")
        return f"{self._newline}{indent}".join(lines)

    def _indent_at(self, at: int) -> str:
        """The white space before a place, if there is nothing else on its line."""
        before = self._text[self._text.rfind("\n", 0, at) + 1 : at]
        return before if not before.strip(" \t") else ""

    def _line_start_text(self, at: int) -> int:
        """Where the text of a place's line begins."""
        start = self._text.rfind("\n", 0, at) + 1
        return start + len(self._text[start:at]) - len(self._text[start:at].lstrip(" \t"))
