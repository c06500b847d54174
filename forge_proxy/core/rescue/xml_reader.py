"""Reads `<function=name><parameter=key>value</parameter>…</function>`: values are raw text, typed by schema later."""

from __future__ import annotations

import re

from forge_proxy.core.chat import ToolCall
from forge_proxy.core.jsontypes import Json, write

_NAME = re.compile(r"\s{0,8}([^\s<>=]{1,128})\s{0,8}>")
_PARAMETER = re.compile(r"\s*<parameter=\s{0,8}([^\s<>=]{1,128})\s{0,8}>")
# A closer inside a value (code that writes such markup) is not followed by what may come after a value.
_CLOSER = re.compile(r"</parameter>(?=\s*(?:<parameter=|</function>))")
_END = re.compile(r"\s*</function>")


def read_function(text: str, at: int) -> tuple[ToolCall, int] | None:
    """The call whose `<function=` ends at `at`, and the place after it; None if it is not whole."""
    name = _NAME.match(text, at)
    if not name:
        return None
    at = name.end()
    args: dict[str, Json] = {}
    while True:
        end = _END.match(text, at)
        if end:
            return ToolCall(name.group(1), write(args)), end.end()
        parameter = _PARAMETER.match(text, at)
        closer = _CLOSER.search(text, parameter.end()) if parameter else None
        if not parameter or not closer:
            return None
        args[parameter.group(1)] = _unframed(text[parameter.end() : closer.start()])
        at = closer.end()


def _unframed(value: str) -> str:
    """The value without the one line break that the form puts before and after it."""
    return value.removeprefix("\n").removesuffix("\n")
