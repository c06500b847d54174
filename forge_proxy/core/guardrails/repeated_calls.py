"""Finds a call that was already answered since the user's last message, and whether calling it again makes sense.

Repeating it makes sense if something may have changed since: the result was a temporary error, reports work in
progress, or differed between equal calls before; or a call in between may have changed what the call reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from forge_proxy.core.guardrails.conversation import (
    AnsweredCall,
    find_user_message,
    read_answered_calls,
    read_user_text,
)
from forge_proxy.core.guardrails.tool_results import ResultKind, is_usable, read_kind
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.tool_names import resolve_name

_MAX_MESSAGES = 200
"""Messages at the end of a conversation in which an equal call is looked for."""
_MAX_POLLS = 2_000
"""Messages in which equal calls with different results are looked for."""
_MAX_DIFFERENCE = 64
"""Characters by which the texts of equal arguments may differ: white space, escapes, nulls."""
_SHORT, _CACHE_SIZE = 512, 4096
"""Characters of arguments whose normalized text is cached, and the number of them."""
_PATIENCE = 3
"""How often a call may be repeated whose result was a temporary error."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CREATES = """add append book buy cancel charge create delete insert order pay post publish refund remove reserve
schedule send submit transfer"""
"""Verbs of tools that change something each time, so that no earlier call is a reason to repeat one."""
_CHANGES = """apply bash command delegate edit exec execute install launch mark merge mkdir move patch python rename
replace reset resolve restart run save set shell start stop store task terminal toggle undo update upload write"""
"""Further words of tools that may change what another tool reads."""
_CREATING = frozenset(_CREATES.split())
_CHANGING = _CREATING | frozenset(_CHANGES.split())


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A call that repeats an answered one, with the latest result."""

    call: ToolCall
    result: str
    times: int = 1
    """How many equal calls were answered since the user's last message."""

    @property
    def failed(self) -> bool:
        """Whether the result reads as an error."""
        return not is_usable(self.result)

    @property
    def failed_parameters(self) -> tuple[str, ...]:
        """The parameters whose value, or whose name, the error mentions."""
        args = self.call.args() or {}
        return tuple(name for name, value in args.items() if self.failed and _mentions(self.result, name, value))


def find_repeated_call(
    calls: Sequence[ToolCall], messages: Sequence[JsonObject], names: tuple[str, ...]
) -> RepeatedCall | None:
    """Return the first of `calls` if each repeats an answered one for no apparent reason; otherwise None.

    A new call makes progress, so its batch is not examined further. `names` are those of the offered tools.
    """
    if not all(is_repeated(call, messages, names) for call in calls):
        return None
    start = _find_start(messages)
    repeated = [_find_repeated(call, messages, start, names) for call in calls]
    return repeated[0] if repeated and all(repeated) else None


def is_repeated(call: ToolCall, messages: Sequence[JsonObject], names: tuple[str, ...]) -> bool:
    """Whether the conversation has an equal call since the user's last message. Nearly always false, so it is fast."""
    for index in range(len(messages) - 1, max(len(messages) - _MAX_MESSAGES, 0) - 1, -1):
        message = messages[index]
        listed = message.get("tool_calls")
        if listed:
            for each in listed if is_list(listed) else ():
                function = each.get("function") if is_object(each) else None
                if not is_object(function) or not _is_of(function.get("name"), call.tool, names):
                    continue
                arguments = function.get("arguments")
                if _equals(call.arguments, arguments if isinstance(arguments, str) else write(arguments)):
                    return True
        elif message.get("role") == "user" and read_user_text(message):
            return False
    return False


def normalize_arguments(text: str) -> str:
    """Return the text that equal arguments share: equal values as JSON, and no null is the same as a null."""
    return _normalize_short(text) if len(text) <= _SHORT else _normalize(text)


def _normalize(text: str) -> str:
    try:
        value: Json = _DECODER.decode(text or "{}")
    except (ValueError, RecursionError):
        return text
    if is_object(value):
        value = {name: each for name, each in value.items() if each is not None}
    return json.dumps(value, sort_keys=True)


_normalize_short = lru_cache(_CACHE_SIZE)(_normalize)
"""Each request contains the calls of the one before."""


def _find_repeated(
    call: ToolCall, messages: Sequence[JsonObject], start: int, names: tuple[str, ...]
) -> RepeatedCall | None:
    answered = list(read_answered_calls(messages, start))
    equal = [each for each in answered if _is_same(each.call, call, names)]
    if not equal:
        return None
    latest = equal[-1]
    if 0 < _count_latest(equal, (ResultKind.TRANSIENT, ResultKind.UNDER_WAY)) <= _PATIENCE:
        return None
    if _has_changed(call, [each for each in answered if each.index > latest.index]):
        return None
    if _is_polled(call, messages[-_MAX_POLLS:], names):
        return None
    return RepeatedCall(call, latest.result, len(equal))


def _count_latest(equal: Sequence[AnsweredCall], kinds: Collection[ResultKind]) -> int:
    """Return how many of the calls at the end have a result of one of these kinds."""
    others = (place for place, each in enumerate(reversed(equal)) if read_kind(each.result) not in kinds)
    return next(others, len(equal))


def _is_same(earlier: ToolCall, call: ToolCall, names: tuple[str, ...]) -> bool:
    return _is_of(earlier.tool, call.tool, names) and _equals(earlier.arguments, call.arguments)


def _equals(arguments: str, others: str) -> bool:
    """Whether two texts contain equal arguments."""
    if arguments == others:
        return True
    if abs(len(arguments) - len(others)) > _MAX_DIFFERENCE:
        return False
    return normalize_arguments(arguments) == normalize_arguments(others)


def _has_changed(call: ToolCall, later: Sequence[AnsweredCall]) -> bool:
    """Whether a successful call after the earlier one may have changed what this call returns."""
    if _words(call.tool) & _CREATING:
        return False
    return any(_words(each.call.tool) & _CHANGING and is_usable(each.result) for each in later)


def _is_polled(call: ToolCall, messages: Sequence[JsonObject], names: tuple[str, ...]) -> bool:
    """Whether equal calls of the tool returned different results. An error says nothing about what the tool reads."""
    results: dict[str, str] = {}
    for each in read_answered_calls(messages):
        if _is_of(each.call.tool, call.tool, names) and is_usable(each.result):
            key = normalize_arguments(each.call.arguments)
            if results.setdefault(key, each.result) != each.result:
                return True
    return False


def _find_start(messages: Sequence[JsonObject]) -> int:
    return max(find_user_message(messages) + 1, len(messages) - _MAX_MESSAGES)


def _is_of(called: Json, name: str, names: tuple[str, ...]) -> bool:
    if called == name or called in names:
        return called == name
    return isinstance(called, str) and resolve_name(called, names) == name


def _words(name: str) -> frozenset[str]:
    return frozenset(part.lower() for part in _PART.findall(name))


def _mentions(result: str, name: str, value: Json) -> bool:
    text = value if isinstance(value, str) else write(value)
    quoted = len(text) > 1 and re.search(rf"(?<!\w){re.escape(text[:200])}(?!\w)", result)
    return bool(quoted or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", result))


def _number(word: str) -> int | float:
    """Parse a number so that 1 and 1.0 are equal, as in JSON."""
    number = float(word)
    return int(number) if number.is_integer() else number


_DECODER = json.JSONDecoder(parse_float=_number)
