"""Calls that repeat one that was already answered in the conversation. Called by `judge`.

A model whose final text is retried may repeat its last call, because the retry requests a call. The client would run
the tool, the model would return the same text, and so on endlessly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from forge_proxy.core.guardrails.conversation import read_answered_calls
from forge_proxy.core.guardrails.tool_results import is_usable
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.messages import ToolCall

_MAX_FAILURES = 3
"""Failures of a call after which making it again is a loop and no retry."""


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


def find_repeats(
    calls: Sequence[ToolCall], messages: Sequence[JsonObject], *, may_retry: bool = True
) -> list[ToolCall]:
    """Return those of `calls` that equal one with a result in the conversation: the same tool and equal arguments, as
    JSON values.

    With `may_retry`, a call that has only failed counts as a retry, not as a repeat, up to `_MAX_FAILURES` times.
    """
    if not calls:
        return []
    names = {call.tool for call in calls}
    results: dict[tuple[str, str], list[str]] = {}
    for each in read_answered_calls(messages):
        if each.call.tool in names:
            results.setdefault(_key(each.call), []).append(each.result)
    most = _MAX_FAILURES if may_retry else 0
    return [call for call in calls if (known := results.get(_key(call))) and not _has_only_failed(known, most)]


def _has_only_failed(results: Sequence[str], most: int) -> bool:
    """Whether all results are errors, at most this many."""
    return len(results) <= most and not any(map(is_usable, results))


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
