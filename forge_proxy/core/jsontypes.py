"""The type of a parsed JSON value, type guards for values of unknown shape, and strict parsing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeGuard

from typing_extensions import TypeAliasType

if TYPE_CHECKING:
    Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | bool | None"
else:
    # pydantic resolves the recursion only with a named type, and type checkers only without one.
    Json = TypeAliasType("Json", Mapping[str, "Json"] | list["Json"] | str | int | float | bool | None)
JsonObject: TypeAlias = Mapping[str, Json]


def no_fields() -> JsonObject:
    """Return an empty object, the default of fields that are forwarded."""
    return {}


def is_object(value: object) -> TypeGuard[dict[str, Json]]:
    """Whether a parsed JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Json]]:
    """Whether a parsed JSON value is an array."""
    return isinstance(value, list)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a parsed JSON value is an integer; `true` and `false` are not."""
    return isinstance(value, int) and not isinstance(value, bool)


MAX_COUNT = 2**53 - 1
"""The largest accepted number of tokens. Sums of such counts fit into the integers of any JSON implementation."""


def is_count(value: object) -> TypeGuard[int]:
    """Whether a parsed JSON value can be a number of tokens."""
    return is_integer(value) and 0 <= value <= MAX_COUNT


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(word: str) -> float:
    number = float(word)
    if math.isinf(number):  # 1e999 would be serialized as Infinity
        raise ValueError(f"{word} is too large")
    return number


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
"""Strict JSON with integers of any length, for values that must not change. `wire` parses bulk JSON with orjson."""

_SPACE = re.compile(r"[ \t\r\n]*")


def skip_space(text: str, at: int) -> int:
    """Return the first index from `at` on that is not JSON whitespace."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def read_value(text: str, at: int) -> tuple[Json, int] | None:
    """Parse the strict JSON value at index `at`. Returns it with the index after it; None if there is none."""
    try:
        value, end = DECODER.raw_decode(text, at)
        if text.find("\\u", at, end) >= 0:
            write(value).encode()  # an unpaired surrogate cannot be encoded as UTF-8
    except (ValueError, RecursionError):
        return None
    return value, end


def read_object(text: str) -> dict[str, Json] | None:
    """Parse `text` strictly as a JSON object; None for anything else."""
    read = read_value(text, skip_space(text, 0))
    if read is None or not is_object(read[0]) or skip_space(text, read[1]) < len(text):
        return None
    return read[0]


MAX_NESTING = 200
"""Maximum nesting depth that is forwarded. orjson, which serializes requests and responses, supports 254 levels, some
of which the envelope uses; servers and clients have their own limits.
"""
_NESTING = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)


def is_nested_too_deeply(text: str) -> bool:
    """Whether JSON text, possibly incomplete, has more than `MAX_NESTING` levels. Takes time linear in its length."""
    if text.count("[") + text.count("{") <= MAX_NESTING:
        return False
    depth = 0
    for found in _NESTING.finditer(text):
        match found.group()[0]:
            case "[" | "{":
                depth += 1
                if depth > MAX_NESTING:
                    return True
            case "]" | "}":
                depth -= 1
            case _:
                pass  # a string: brackets inside it do not count
    return False


def write(value: Json) -> str:
    """Serialize a value as JSON text, with integers of any length."""
    return json.dumps(value, ensure_ascii=False)


def kind_of(value: object) -> str:
    """Return the JSON Schema name of a value's type, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
