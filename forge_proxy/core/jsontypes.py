"""The type of a parsed JSON value, and the few questions asked of one whose shape is not known."""

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
    # pydantic finds its way through the recursion only with a named type, and type checkers only without one.
    Json = TypeAliasType("Json", Mapping[str, "Json"] | list["Json"] | str | int | float | bool | None)
JsonObject: TypeAlias = Mapping[str, Json]


def no_fields() -> JsonObject:
    """An empty object: the default of fields that hold what is passed on."""
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
"""The largest number of tokens that is believed: sums of such counts can be written in any JSON."""


def is_count(value: object) -> TypeGuard[int]:
    """Whether a parsed JSON value can be a number of tokens."""
    return is_integer(value) and 0 <= value <= MAX_COUNT


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(word: str) -> float:
    number = float(word)
    if math.isinf(number):  # 1e999: printed again it would be the word Infinity
        raise ValueError(f"{word} is too large")
    return number


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
"""Strict JSON, integers of any length: for what must come out as it went in. `wire` reads bulk JSON with orjson."""

_SPACE = re.compile(r"[ \t\r\n]*")


def skip_space(text: str, at: int) -> int:
    """The first place from `at` on that is no white space of JSON."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def read_value(text: str, at: int) -> tuple[Json, int] | None:
    """The strict JSON value that begins at `at` and the place after it; None if there is none."""
    try:
        value, end = DECODER.raw_decode(text, at)
        if text.find("\\u", at, end) >= 0:
            write(value).encode()  # half of a surrogate pair is no text: nobody could be sent it
    except (ValueError, RecursionError):
        return None
    return value, end


def read_object(text: str) -> dict[str, Json] | None:
    """The JSON object that `text` is, read strictly; None for anything else."""
    read = read_value(text, skip_space(text, 0))
    if read is None or not is_object(read[0]) or skip_space(text, read[1]) < len(text):
        return None
    return read[0]


DEEPEST = 200
"""Levels of nesting that are passed on. orjson, which writes what is sent, has 254 of them, some taken by what is
around; servers and clients have limits of their own.
"""
_NESTING = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)


def is_nested_too_deeply(text: str) -> bool:
    """Whether JSON text has more than `DEEPEST` levels, as far as it can be read. Takes time linear in its length."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    depth = 0
    for found in _NESTING.finditer(text):
        match found.group()[0]:
            case "[" | "{":
                depth += 1
                if depth > DEEPEST:
                    return True
            case "]" | "}":
                depth -= 1
            case _:
                pass  # text, in which brackets mean nothing
    return False


def write(value: Json) -> str:
    """JSON text of a value, integers of any length."""
    return json.dumps(value, ensure_ascii=False)


def kind_of(value: object) -> str:
    """The JSON Schema name of a value's type, for messages."""
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
