"""Converts pydantic's validation errors to `InvalidRequest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import is_list, is_object
from forge_proxy.core.validation import describe_fault

_OUTSIDE_BODY = ("query", "path", "header")
FieldPath: TypeAlias = tuple[str, ...]


def to_invalid_request(errors: Sequence[Mapping[str, Any]], value: object = None) -> InvalidRequest:
    """Return the first of pydantic's errors with the path of its field. The message never quotes what was sent.

    `value` is the validated value. If a field may have one of several types, pydantic reports an error for each and
    puts the type's name into the path; `value` tells those names from the names of fields.
    """
    paths = [(_path(error, value), error) for error in errors]
    start = paths[0][0]
    longest = max((path for path, _ in paths if path[: len(start)] == start), key=len)
    reasons = dict.fromkeys(_reason(error) for path, error in paths if path == longest)
    first = next(error for path, error in paths if path == longest)
    at = "" if first["type"] == "json_invalid" else ".".join(longest)
    return InvalidRequest(at or "body", ", or: ".join(reasons))


def _reason(error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "no such field"
        case "json_invalid":
            return f"not JSON: {error['ctx']['error']}"
        case "bool_parsing" | "bool_type":
            return "expected true or false (on or off)"
        case _:
            return describe_fault(error)


def _path(error: Mapping[str, Any], value: object) -> FieldPath:
    """Return the path of the field, without the names of types."""
    parts: list[str | int] = [*error["loc"]]
    if parts and parts[0] in _OUTSIDE_BODY:
        return tuple(map(str, parts[1:]))
    if parts[:1] == ["body"]:
        del parts[0]
    if error["type"] == "missing" and parts:  # otherwise the whole body is missing
        *parts, last = parts
        return (*_existing(parts, value), str(last))
    return _existing(parts, value)


def _existing(parts: Sequence[str | int], value: object) -> FieldPath:
    """Return the parts that lead through `value`."""
    if not (is_object(value) or is_list(value)):
        return tuple(map(str, parts))
    path: list[str] = []
    current: object = value
    for part in parts:
        if is_object(current) and part in current:
            current = current[str(part)]
        elif is_list(current) and isinstance(part, int) and part < len(current):
            current = current[part]
        else:
            continue  # the name of a type
        path.append(str(part))
    return tuple(path)
