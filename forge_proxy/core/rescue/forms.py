"""The forms a call is written in: how each goes on after its opener.

A new form is a reader here and its marker in `openers.py`.

A reader is given the text and the place after its marker. It answers with calls and the place after them, or None when
what follows is no call it can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from forge_proxy.core.chat import ToolCall
from forge_proxy.core.jsontypes import is_object, read_value, skip_space
from forge_proxy.core.rescue.calls import calls_of
from forge_proxy.core.rescue.json_reader import read_members, read_objects
from forge_proxy.core.rescue.xml_reader import read_function


class Parsed(NamedTuple):
    """Calls read at one place, the name of their form, and the place after them."""

    calls: list[ToolCall]
    form: str
    end: int


Reader = Callable[[str, int], Parsed | None]

_MISTRAL_NAME = re.compile(r"\s{0,8}([^\s\[\]{}]{1,128})(?:\[CALL_ID\]([^\s\[\]{}]{1,64}))?(?:\[ARGS\])?\s{0,8}")


def read_tool_call(text: str, at: int) -> Parsed | None:
    """Hermes and Qwen: `<tool_call>` with a JSON object, several of them, or Qwen-Coder's `<function=…>` inside."""
    at = skip_space(text, at)
    if text.startswith("<function=", at):
        inner = read_coder(text, at + len("<function="))
        return inner and Parsed(inner.calls, "qwen-coder", _past(text, inner.end, "</tool_call>"))
    calls: list[ToolCall] = []
    while True:
        objects = read_objects(text, at)
        found = calls_of(objects[0]) if objects else None
        if objects is None or found is None:
            return Parsed(calls, "hermes", at) if calls else None
        calls += found
        at = skip_space(text, objects[1])
        if not text.startswith(("{", "["), at):
            return Parsed(calls, "hermes", _past(text, objects[1], "</tool_call>"))


def read_coder(text: str, at: int) -> Parsed | None:
    """Qwen-Coder: `<function=name>` with parameters in tags; Llama's `<function=name>{…}</function>` too."""
    named = re.compile(r"([^\s<>=]{1,128})>\s{0,8}(?=\{)").match(text, at)
    if named:
        members = read_members(text, named.end())
        if members is None:
            return None
        call = ToolCall(named.group(1), text[named.end() : members.end])
        return Parsed([call], "function-tag", _past(text, members.end, "</function>"))
    read = read_function(text, at)
    return Parsed([read[0]], "qwen-coder", _past(text, read[1], "</tool_call>")) if read else None


def read_mistral(text: str, at: int) -> Parsed | None:
    """Mistral, after `[TOOL_CALLS]`: a list of objects, `name{…}`, or `name[ARGS]{…}`, each repeated."""
    start = skip_space(text, at)
    if text.startswith(("[", "{"), start):
        objects = read_objects(text, start)
        calls = calls_of(objects[0]) if objects else None
        return Parsed(calls, "mistral", objects[1]) if objects and calls else None
    named = _MISTRAL_NAME.match(text, at)
    value = read_value(text, named.end()) if named else None
    if not named or value is None or not is_object(value[0]):
        return None
    call = ToolCall(named.group(1), text[named.end() : value[1]], named.group(2) or "")
    return Parsed([call], "mistral", value[1])


def read_rehearsal(text: str, at: int, name: str) -> Parsed | None:
    """`name[ARGS]{…}`, Mistral's form with its opener lost. `at` is the place after the name."""
    start = skip_space(text, at + len("[ARGS]"))
    members = read_members(text, start)
    return Parsed([ToolCall(name, text[start : members.end])], "rehearsal", members.end) if members else None


def read_json(text: str, at: int) -> Parsed | None:
    """An object, or a list of objects, with a call's keys."""
    objects = read_objects(text, at)
    calls = calls_of(objects[0]) if objects else None
    return Parsed(calls, "json", objects[1]) if objects and calls else None


READERS: dict[str, Reader] = {
    "<tool_call>": read_tool_call,
    "<function=": read_coder,
    "[TOOL_CALLS]": read_mistral,
}


def _past(text: str, at: int, closer: str) -> int:
    """The place after `closer` where it stands next, white space aside; `at` where it was forgotten."""
    after = skip_space(text, at)
    return after + len(closer) if text.startswith(closer, after) else at
