"""pydantic's words for a wrong field, as our own error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import is_list, is_object
from forge_proxy.core.validation import describe_fault

_ELSEWHERE = ("query", "path", "header")
Steps: TypeAlias = tuple[str, ...]


def wrong_field(faults: Sequence[Mapping[str, Any]], said: object = None) -> InvalidRequest:
    """The first of pydantic's faults, with the field's name. What was sent is not shown: it may be a secret.

    `said` is what was checked. By it the names of types are told from those of fields: pydantic puts both into its
    paths where a field may hold one of several types, and has a fault for each of them then.
    """
    places = [(_steps(fault, said), fault) for fault in faults]
    begin = places[0][0]
    steps = max((steps for steps, _ in places if steps[: len(begin)] == begin), key=len)
    whys = dict.fromkeys(_why(fault) for place, fault in places if place == steps)
    first = next(fault for place, fault in places if place == steps)
    at = "" if first["type"] == "json_invalid" else ".".join(steps)
    return InvalidRequest(at or "body", ", or: ".join(whys))


def _why(fault: Mapping[str, Any]) -> str:
    match fault["type"]:
        case "extra_forbidden":
            return "no such field"
        case "json_invalid":
            return f"not JSON: {fault['ctx']['error']}"
        case "bool_parsing" | "bool_type":
            return "expected true or false (on or off)"
        case _:
            return describe_fault(fault)


def _steps(fault: Mapping[str, Any], said: object) -> Steps:
    """The path of a fault, without the names of types."""
    parts: list[str | int] = [*fault["loc"]]
    if parts and parts[0] in _ELSEWHERE:
        return tuple(map(str, parts[1:]))
    if parts[:1] == ["body"]:
        del parts[0]
    if fault["type"] == "missing" and parts:  # else it is the whole body
        *parts, last = parts
        return (*_there(parts, said), str(last))
    return _there(parts, said)


def _there(parts: Sequence[str | int], said: object) -> Steps:
    if not (is_object(said) or is_list(said)):
        return tuple(map(str, parts))
    steps: list[str] = []
    now: object = said
    for part in parts:
        if is_object(now) and part in now:
            now = now[str(part)]
        elif is_list(now) and isinstance(part, int) and part < len(now):
            now = now[part]
        else:
            continue  # a type
        steps.append(str(part))
    return tuple(steps)
