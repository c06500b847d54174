"""Describes pydantic's validation errors, in one form for settings, the HTTP API, commands and tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import is_list, is_object

FieldPath: TypeAlias = tuple[str, ...]
_EXPECTED: Mapping[str, str] = {
    "missing": "required, but missing",
    "int": "expected an integer",
    "float": "expected a number",
    "string": "expected a string",
    "bool": "expected true or false",
    "list": "expected a list",
    "dict": "expected an object",
    "model": "expected an object",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected at most {le}",
    "string_too_short": "expected a length of at least {min_length}",
    "string_too_long": "expected a length of at most {max_length}",
    "too_short": "expected at least {min_length} items",
    "too_long": "expected at most {max_length} items",
}
"""By pydantic's error type, or by its first part for errors of a type (`int_parsing`, `int_from_float`)."""
_PARAMETER_KINDS = ("query", "path", "header")
_TYPE_SUFFIXES = ("_type", "_parsing", "_parsing_size", "_from_float", "_unicode", "_attributes_type")


def describe_fault(fault: Mapping[str, Any]) -> str:
    """Describe one of pydantic's errors, without its path and without the value, which may be secret."""
    kind = str(fault["type"])
    words = _EXPECTED.get(kind)
    if words is None and kind.endswith(_TYPE_SUFFIXES):
        words = _EXPECTED.get(kind.partition("_")[0])
    if words is not None:
        return words.format(**fault.get("ctx", {}))
    message = str(fault["msg"]).removeprefix("Value error, ")
    return re.sub(r"^(?:Input|Value) should be ", "expected ", message)


def iter_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the dotted paths of all fields of a model, including those of its nested models."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path, field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from iter_fields(field.annotation, f"{path}.")


def suggest_name(name: str, known: Collection[str], *, prefix: str = "", separator: str = ".") -> str:
    """Return a hint to append to a message about an unknown dotted name: the most similar known name."""

    def last_part(path: str) -> str:
        return path.removeprefix(prefix).rpartition(separator)[2]

    close = get_close_matches(name, known, n=1, cutoff=0.95)  # preferred to the same name in another section
    close = close or [one for one in known if last_part(one) == last_part(name)]
    close = close or get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def to_invalid_request(
    faults: Sequence[Mapping[str, Any]], value: object = None, known: Collection[str] = ()
) -> InvalidRequest:
    """Return the first of pydantic's errors as an error with the field's path, without the value, which may be secret.

    `value` is what was validated. It distinguishes field names from type names: for a field of several types, pydantic
    reports one error per type and adds the type's name to the path. `known` are the dotted names of the fields, for a
    suggestion.
    """
    paths = [(_field_path(fault, value), fault) for fault in faults]
    begin = paths[0][0]
    longest = max((path for path, _ in paths if path[: len(begin)] == begin), key=len)
    name = ".".join(longest)
    reasons = dict.fromkeys(_describe_field_fault(fault, name, known) for path, fault in paths if path == longest)
    first = next(fault for path, fault in paths if path == longest)
    at = "" if first["type"] == "json_invalid" else name
    return InvalidRequest(at or "body", ", or: ".join(reasons))


def _describe_field_fault(fault: Mapping[str, Any], name: str, known: Collection[str]) -> str:
    match fault["type"]:
        case "extra_forbidden":
            return f"no such field{suggest_name(name, known)}"
        case "json_invalid":
            return f"not JSON: {fault['ctx']['error']}"
        case "bool_parsing" | "bool_type":
            return "expected true or false (on or off)"
        case _:
            return describe_fault(fault)


def _field_path(fault: Mapping[str, Any], value: object) -> FieldPath:
    """Return the path of an error, without the names of types."""
    parts: list[str | int] = [*fault["loc"]]
    if parts and parts[0] in _PARAMETER_KINDS:
        return tuple(map(str, parts[1:]))
    if parts[:1] == ["body"]:
        del parts[0]
    if fault["type"] == "missing" and parts:  # without parts, the whole body is missing
        *parts, last = parts
        return (*_existing_path(parts, value), str(last))
    return _existing_path(parts, value)


def _existing_path(parts: Sequence[str | int], value: object) -> FieldPath:
    """Return the parts that exist in the value; the others are names of types."""
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
            continue
        path.append(str(part))
    return tuple(path)


def split_list(value: object) -> object:
    """Split a list from an environment variable at commas and spaces; an empty variable is an empty list."""
    return [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value
