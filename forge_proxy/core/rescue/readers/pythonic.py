"""Reads a call written as code: `get_weather(city="Oslo", days=3)`."""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import Json, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.readers.json_calls import MAX_CALLS, ParsedCall
from forge_proxy.core.rescue.readers.lenient_json import LenientReader, Unreadable

CALL = re.compile(r"\s{0,16}(?P<name>[^\W\d][\w.:/-]{0,127})\s?\(")
"""The start of such a call."""
_KEYWORD = re.compile(r"([^\W\d]\w{0,127})\s*+=(?!=)|[\"']([^\W\d]\w{0,127})[\"']\s*+:")
_AFTER_ARGUMENT = re.compile(
    r"\s{0,64}(?:\)|,\s{0,64}(?:\)|[^\W\d]\w{0,127}\s{0,8}=|[\"'\[{(\d-]|True|False|None|\Z)|\+\s|(?<=[\"'])\s{1,64}[rbuf]{0,2}[\"']|\Z|</|<[|｜])"
)
_BETWEEN = re.compile(r"\s*+[,;\n]\s*+(?=[^\W\d][\w.:/-]{0,127}\s?\()|\s*+(?=[^\W\d][\w.:/-]{0,127}\()")
_CLOSING = re.compile(r"\s{0,64},?\s{0,64}\]")
_NORMAL_IN_CODE = frozenset({"quotes", "words", "line breaks"})
"""Deviations from JSON that are normal in Python code and therefore not reported as repairs."""


def read_call(text: str, at: int, context: ParseContext) -> tuple[ParsedCall, int] | None:
    """Read the call at `at` and return it with the position after it; None if it cannot be parsed."""
    opening = CALL.match(text, at)
    if not opening or not context.may_try(1):
        return None
    reader = LenientReader(text, opening.end())
    reader.bare_words = False
    try:
        args, positional = _read_arguments(reader)
    except Unreadable:
        context.spend_effort(reader.at - at)
        return None
    name = opening["name"].removesuffix(".call")
    repairs = frozenset(reader.repairs) - _NORMAL_IN_CODE
    return ParsedCall(ToolCall(name, write(args)), repairs, positional=positional, open=reader.open), reader.at


def _read_arguments(reader: LenientReader) -> tuple[dict[str, Json], int]:
    """Read the arguments up to the closing parenthesis; return them and the number of positional ones."""
    args: dict[str, Json] = {}
    positional = 0
    while True:
        reader.skip_space()
        if reader.consume(")"):
            return args, positional
        if reader.ends_here():
            reader.open = reader.at == len(reader.text)
            reader.repairs.add("brackets")
            return args, positional
        reader.consume("**")
        keyword = _KEYWORD.match(reader.text, reader.at)
        if keyword:
            key = keyword[1] or keyword[2]
            reader.at = keyword.end()
        elif args and len(args) > positional:  # a positional argument after a keyword argument
            raise Unreadable
        else:
            key = str(positional)
            positional += 1
        args[key] = reader.read_value(_AFTER_ARGUMENT)
        reader.skip_space()
        if (
            not reader.consume(",")
            and reader.text[reader.at : reader.at + 1] not in (")", "")
            and not reader.ends_here()
        ):
            raise Unreadable


def read_calls(text: str, at: int, context: ParseContext) -> tuple[list[ParsedCall], int] | None:
    """Read one call or several, as `[f(a=1), g()]`, one per line, or separated by `;`; None if there is none.

    Reading stops after `MAX_CALLS` + 1 calls, which is enough to recognize an endless list.
    """
    is_list = text.startswith("[", at)
    calls: list[ParsedCall] = []
    at += is_list
    while call := read_call(text, at, context):
        calls.append(call[0])
        at = call[1]
        if len(calls) > MAX_CALLS:
            break
        following = _BETWEEN.match(text, at)
        closing = _CLOSING.match(text, at) if is_list else None
        if closing or call[0].open:
            return calls, closing.end() if closing else at
        if not following:
            break
        at = following.end()
    return (calls, at) if calls else None
