"""Describes pydantic's validation errors uniformly for settings, the admin API, commands and tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
"""Messages by pydantic's error type, or by its first word for type errors (`int_parsing`, `int_from_float`)."""
_TYPE_ERRORS = ("_type", "_parsing", "_parsing_size", "_from_float", "_unicode", "_attributes_type")


def describe_fault(fault: Mapping[str, Any]) -> str:
    """Describe one validation error without its path and without the value, which may be secret."""
    kind = str(fault["type"])
    expected = _EXPECTED.get(kind)
    if expected is None and kind.endswith(_TYPE_ERRORS):
        expected = _EXPECTED.get(kind.partition("_")[0])
    if expected is not None:
        return expected.format(**fault.get("ctx", {}))
    message = str(fault["msg"]).removeprefix("Value error, ")
    return re.sub(r"^(?:Input|Value) should be ", "expected ", message)
