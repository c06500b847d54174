"""Repairs the message history that a client sends, so that one malformed response does not fail all later requests.

Deterministic per message: each turn repairs the same history in the same way, so that the model server's prefix cache
keeps matching. Valid messages remain the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import is_not

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.rescue import repair_arguments

RAW = "_raw"
"""The only key of arguments that could not be parsed; its value is the model's text."""
_LONGEST = 8_000
"""Maximum characters of malformed arguments to repair, which takes milliseconds. Longer ones are kept as text."""
_SHALLOW = 100
"""Nesting depth that can always be serialized."""
_CONTENT_FIELDS = ("content", "tool_calls", "function_call", "refusal", "audio")


def repair_messages(messages: Sequence[Json]) -> list[Json]:
    """Return the messages with valid JSON objects as arguments, and an id and type for each call and result.

    A result with an unknown id or none gets the next id of the latest calls that no other result has.
    """
    out = list(messages)
    seen: set[str] = set()
    free: list[str] = []
    for place, message in enumerate(messages):
        if not is_object(message):
            continue
        role = message.get("role")
        if role == "assistant":
            out[place] = repaired = _assistant(message, place)
            if ids := _ids(repaired.get("tool_calls")):
                seen.update(ids)
                named = _result_ids(messages, place + 1)
                free = [identity for identity in ids if identity not in named]
        elif role == "tool":
            out[place] = _result(message, seen, free)
    return out


def _assistant(message: JsonObject, place: int) -> JsonObject:
    calls = message.get("tool_calls")
    if is_list(calls) and calls:
        repaired = [_call(call, place, number) for number, call in enumerate(calls)]
        return {**message, "tool_calls": repaired} if any(map(is_not, repaired, calls)) else message
    # An empty response from a client that omits null fields.
    return message if any(key in message for key in _CONTENT_FIELDS) else {**message, "content": ""}


def _call(call: Json, place: int, number: int) -> Json:
    function = call.get("function") if is_object(call) else None
    if not is_object(call) or not is_object(function):
        return call
    changes: dict[str, Json] = {}
    if not _is_id(call.get("id")):
        # Nine letters and digits: some templates accept no others. Derived from the position: stable across turns.
        changes["id"] = f"c{place:05d}{number:03d}"
    if not call.get("type"):
        changes["type"] = "function"
    arguments = function.get("arguments")
    if (text := _arguments(arguments)) is not arguments:
        changes["function"] = {**function, "arguments": text}
    return {**call, **changes} if changes else call


def _result(message: JsonObject, seen: set[str], free: list[str]) -> JsonObject:
    changes: dict[str, Json] = {}
    identity = message.get("tool_call_id")
    if _is_id(identity) and identity in seen:
        if identity in free:  # a message of another role stands between the call and this result
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


def _result_ids(messages: Sequence[Json], start: int) -> set[str]:
    """Return the call ids of the results that begin at `start`."""
    named: set[str] = set()
    for place in range(start, len(messages)):
        message = messages[place]
        if not is_object(message) or message.get("role") != "tool":
            break
        if isinstance(identity := message.get("tool_call_id"), str):
            named.add(identity)
    return named


def may_be_too_deep(text: str) -> bool:
    """Return whether JSON text may be nested too deeply to be serialized."""
    return text.count("{") + text.count("[") > _SHALLOW


def to_arguments_object(text: str) -> JsonObject:
    """Return the arguments of a call as an object, for servers that do not accept text.

    If they are not an object, or are nested too deeply to be serialized, the object has the text under the key `RAW`.
    """
    read = _read(text)
    if not is_object(read):
        return {RAW: text}
    if may_be_too_deep(text):
        try:
            orjson.dumps([[[[[[[[read]]]]]]]])  # at least its depth in the request body
        except TypeError:
            return {RAW: text}
    return read


def _arguments(value: Json) -> str:
    """Return the arguments of a call as the text of a JSON object; the same string if it is one."""
    if isinstance(value, str):
        return value if is_object(_read(value)) else _repair_arguments(value)
    return "{}" if value is None else orjson.dumps(value if is_object(value) else {RAW: value}).decode()


@lru_cache(maxsize=256)
def _repair_arguments(text: str) -> str:
    """Repair text that is not a JSON object; if that fails, return the text under the key `RAW`."""
    inner = _read(text)
    if not text.strip() or text.strip() == "null":
        return "{}"
    if isinstance(inner, str) and is_object(_read(inner)):  # serialized twice
        return inner
    repaired = repair_arguments(text).text if len(text) <= _LONGEST else None
    return repaired if repaired is not None and is_object(_read(repaired)) else orjson.dumps({RAW: text}).decode()


def _read(text: str) -> Json:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
