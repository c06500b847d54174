"""The type of a parsed JSON value, and the few questions asked of one whose shape is not known."""

from __future__ import annotations

import json
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


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


DECODER = json.JSONDecoder(parse_constant=_no_constant)
"""Strict JSON, integers of any length: for what must come out as it went in. `wire` reads bulk JSON with orjson."""


def read_object(text: str) -> dict[str, Json] | None:
    """The JSON object that `text` is, read strictly; None for anything else."""
    try:
        value: object = DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


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
