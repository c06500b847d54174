"""Calls that repeat one that was already answered in the conversation. Called by `judge`.

A model whose final text is retried may repeat its last call, because the retry requests a call. The client would run
the tool, the model would return the same text, and so on endlessly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, write
from forge_proxy.core.messages import ToolCall


def find_answered_calls(messages: Iterable[JsonObject]) -> tuple[ToolCall, ...]:
    """Return the calls of a conversation that have a result."""
    calls: dict[str, ToolCall] = {}
    answered: list[ToolCall] = []
    for message in messages:
        listed = message.get("tool_calls")
        for call in listed if is_list(listed) else ():
            function = call.get("function") if is_object(call) else None
            if is_object(call) and is_object(function):
                calls[str(call.get("id"))] = _read(function)
        if message.get("role") == "tool" and (call := calls.pop(str(message.get("tool_call_id")), None)):
            answered.append(call)
    return tuple(answered)


def find_latest_answered_tools(messages: Sequence[JsonObject]) -> set[str]:
    """Return the names of the tools whose calls in the latest message with calls have a result.

    Only the end of the conversation is read: earlier calls were the latest ones of earlier requests.
    """
    results: set[str] = set()
    for message in reversed(messages):
        if message.get("role") == "tool":
            results.add(str(message.get("tool_call_id")))
        listed = message.get("tool_calls")
        if is_list(listed) and listed:
            calls = [call for call in listed if is_object(call) and str(call.get("id")) in results]
            functions = [function for call in calls if is_object(function := call.get("function"))]
            return {name for function in functions if isinstance(name := function.get("name"), str)}
    return set()


def find_repeats(calls: Sequence[ToolCall], messages: Iterable[JsonObject]) -> list[ToolCall]:
    """Return those of `calls` that equal one with a result in the conversation: the same tool and equal arguments, as
    JSON values.
    """
    if not calls:
        return []
    names = {call.tool for call in calls}
    known = {_key(call) for call in find_answered_calls(messages) if call.tool in names}
    return [call for call in calls if _key(call) in known]


def _read(function: JsonObject) -> ToolCall:
    name, arguments = function.get("name"), function.get("arguments")
    text = arguments if isinstance(arguments, str) else write(arguments) if is_object(arguments) else "{}"
    return ToolCall(name if isinstance(name, str) else "", text)


def _key(call: ToolCall) -> tuple[str, str]:
    """Return the key that equal calls share; it contains the raw text of arguments that cannot be parsed."""
    try:
        read: Json = json.loads(call.arguments or "{}", parse_float=_number)
        return call.tool, json.dumps(read, sort_keys=True)
    except (ValueError, RecursionError):
        return call.tool, call.arguments


def _number(word: str) -> int | float:
    """Parse a number so that 1 and 1.0 are equal, as in JSON."""
    number = float(word)
    return int(number) if number.is_integer() else number
