"""Reads calls in sections, as Kimi K3 writes them; each argument states its name and its JSON type.

`<|open|>call tool="f" index="1"<|sep|>`, any number of arguments, `<|close|>call<|sep|>`; an argument is
`<|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|>`.
"""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import Json, read_value, skip_space, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.grammar.markup import SECTION_CALL
from forge_proxy.core.rescue.readers.json_calls import MAX_CALLS, ParsedCall

_ARGUMENT = re.compile(
    r"<\|open\|>argument key=\"(?P<key>[^\"\n]{1,160})\"(?: type=\"(?P<type>\w{1,16})\")?[^<>\n]{0,60}<\|sep\|>"
)
_CALL_END = re.compile(r"\s*<\|close\|>call<\|sep\|>")
_VALUE_END = re.compile(r"<\|close\|>argument<\|sep\|>(?=\s*(?:<\|open\|>argument|<\|close\|>call<\|sep\|>|\Z))")
"""The end of a value, before text that may follow one: a value may contain the same markup."""


def read_section_calls(text: str, at: int) -> tuple[list[ParsedCall], int] | None:
    """Read consecutive complete calls from `at` on; None if there are none. An incomplete one stays in the text."""
    calls: list[ParsedCall] = []
    while len(calls) < MAX_CALLS and (opening := SECTION_CALL.match(text, skip_space(text, at))):
        read = _read_call(text, opening)
        if read is None:
            break
        calls.append(read[0])
        at = read[1]
    return (calls, at) if calls else None


def _read_call(text: str, opening: re.Match[str]) -> tuple[ParsedCall, int] | None:
    values: dict[str, Json] = {}
    untyped: set[str] = set()
    at = opening.end()
    while argument := _ARGUMENT.match(text, skip_space(text, at)):
        closing = _VALUE_END.search(text, argument.end())
        if closing is None:
            return None
        key, kind, written = argument["key"], argument["type"], text[argument.end() : closing.start()]
        bare = written.strip()
        typed = read_value(bare, 0) if kind not in ("string", None) else None
        untyped.discard(key)
        if typed is not None and typed[1] == len(bare):
            values[key] = typed[0]
        else:
            values[key] = written
            if kind != "string":
                untyped.add(key)
        at = closing.end()
    end = _CALL_END.match(text, at)
    if end is None:
        return None
    return ParsedCall(ToolCall(opening["name"], write(values)), untyped=frozenset(untyped)), end.end()
