"""Heals the history that a client sends back, so that what a model once wrote badly does not fail every later request.

Deterministic, message by message: the same history is healed the same way in each turn, and the model server's prefix
cache goes on matching. What is in order is not touched: it stays the very same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import is_not

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.rescue import repair_arguments

RAW = "_raw"
"""The one key of arguments that could not be read: its value is the text as the model wrote it."""
_LONGEST = 8_000
"""Characters of broken arguments that are mended: milliseconds, and once. Longer ones are kept raw."""
_SHALLOW = 100
"""Levels of nesting that are always written."""
_SAYS = ("content", "tool_calls", "function_call", "refusal", "audio")


def healed(messages: Sequence[Json]) -> list[Json]:
    """The messages in their order: valid JSON objects for arguments, an id and a type for each call and each result.

    A result without an id, or with that of no call, gets the next id of the latest calls that no result names.
    """
    out = list(messages)
    seen: set[str] = set()
    free: list[str] = []
    for place, message in enumerate(messages):
        if not is_object(message):
            continue
        role = message.get("role")
        if role == "assistant":
            out[place] = mended = _assistant(message, place)
            if ids := _ids(mended.get("tool_calls")):
                seen.update(ids)
                named = _named(messages, place + 1)
                free = [identity for identity in ids if identity not in named]
        elif role == "tool":
            out[place] = _result(message, seen, free)
    return out


def _assistant(message: JsonObject, place: int) -> JsonObject:
    calls = message.get("tool_calls")
    if is_list(calls) and calls:
        mended = [_call(call, place, number) for number, call in enumerate(calls)]
        return {**message, "tool_calls": mended} if any(map(is_not, mended, calls)) else message
    # An empty answer, written by a client that leaves out what is null.
    return message if any(key in message for key in _SAYS) else {**message, "content": ""}


def _call(call: Json, place: int, number: int) -> Json:
    function = call.get("function") if is_object(call) else None
    if not is_object(call) or not is_object(function):
        return call
    changes: dict[str, Json] = {}
    if not _is_id(call.get("id")):
        # Nine letters and digits: some templates take no others. By the place, which is the same in each turn.
        changes["id"] = f"c{place:05d}{number:03d}"
    if not call.get("type"):
        changes["type"] = "function"
    said = function.get("arguments")
    if (text := _arguments(said)) is not said:
        changes["function"] = {**function, "arguments": text}
    return {**call, **changes} if changes else call


def _result(message: JsonObject, seen: set[str], free: list[str]) -> JsonObject:
    changes: dict[str, Json] = {}
    identity = message.get("tool_call_id")
    if _is_id(identity) and identity in seen:
        if identity in free:  # named from further on: another message stands between
            free.remove(identity)
    else:
        if free:
            changes["tool_call_id"] = free.pop(0)
        elif identity is None:
            changes["tool_call_id"] = ""
    if "content" not in message:
        changes["content"] = ""
    return {**message, **changes} if changes else message


def _is_id(value: Json) -> bool:
    return isinstance(value, str) and bool(value)


def _ids(calls: Json) -> list[str]:
    found = [call.get("id") for call in calls if is_object(call)] if is_list(calls) else []
    return [identity for identity in found if isinstance(identity, str)]


def _named(messages: Sequence[Json], start: int) -> set[str]:
    """The ids that the results from `start` on name."""
    named: set[str] = set()
    for place in range(start, len(messages)):
        message = messages[place]
        if not is_object(message) or message.get("role") != "tool":
            break
        if isinstance(identity := message.get("tool_call_id"), str):
            named.add(identity)
    return named


def is_deep(text: str) -> bool:
    """Whether JSON text may be nested too deeply to be written."""
    return text.count("{") + text.count("[") > _SHALLOW


def readable_arguments(text: str) -> JsonObject:
    """The object that the arguments of a call are, for servers that take no text. If they are none, or are nested too
    deeply to be written: the text as the value of `RAW`.
    """
    read = _read(text)
    if not is_object(read):
        return {RAW: text}
    if is_deep(text):
        try:
            orjson.dumps([[[[[[[[read]]]]]]]])  # as deep as it will stand in the body, and more
        except TypeError:
            return {RAW: text}
    return read


def _arguments(said: Json) -> str:
    """The arguments of a call as the text of a JSON object: the same string where they are one."""
    if isinstance(said, str):
        return said if is_object(_read(said)) else _mended(said)
    return "{}" if said is None else orjson.dumps(said if is_object(said) else {RAW: said}).decode()


@lru_cache(maxsize=256)
def _mended(text: str) -> str:
    """Text that is no JSON object: what can be read of it, else the text itself as the value of `RAW`."""
    inner = _read(text)
    if not text.strip() or text.strip() == "null":
        return "{}"
    if isinstance(inner, str) and is_object(_read(inner)):  # written as JSON twice
        return inner
    mended = repair_arguments(text).text if len(text) <= _LONGEST else None
    return mended if mended is not None and is_object(_read(mended)) else orjson.dumps({RAW: text}).decode()


def _read(text: str) -> Json:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
