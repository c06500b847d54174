"""Reading fields of a request body: each function gives a good value or an `InvalidRequest` that names the field."""

from __future__ import annotations

from typing import NoReturn

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object, kind_of


def refuse(at: str, wanted: str, got: Json) -> NoReturn:
    """Say that a field holds the wrong kind of value."""
    raise InvalidRequest(at, f"expected {wanted}, got {kind_of(got)}")


def text(body: JsonObject, key: str, at: str) -> str:
    """A required string that is not empty."""
    if key not in body:
        raise InvalidRequest(at, "required, but missing")
    value = body[key]
    if not isinstance(value, str):
        refuse(at, "a string", value)
    if not value:
        raise InvalidRequest(at, "must not be empty")
    return value


def optional_text(body: JsonObject, key: str) -> str | None:
    """A string, null or missing."""
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        refuse(key, "a string", value)
    return value


def flag(body: JsonObject, key: str, at: str, default: bool) -> bool:  # the default of a flag is a flag
    """A boolean; null counts as missing."""
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        refuse(at, "true or false", value)
    return value


def count(body: JsonObject, key: str, least: int, most: int | None = None) -> int | None:
    """An integer from `least` to `most`; null counts as missing."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not is_integer(value):
        refuse(key, "an integer", value)
    if value < least:
        raise InvalidRequest(key, f"expected at least {least}, got {value}")
    if most is not None and value > most:
        raise InvalidRequest(key, f"expected at most {most}, got {value}")
    return value


def objects(body: JsonObject, key: str, at: str) -> list[JsonObject]:
    """A list of objects; null counts as missing, which is an empty list."""
    value = body.get(key)
    if value is None:
        return []
    if not is_list(value):
        refuse(at, "a list", value)
    found: list[JsonObject] = [item for item in value if is_object(item)]
    if len(found) < len(value):
        index = next(index for index, item in enumerate(value) if not is_object(item))
        refuse(f"{at}[{index}]", "an object", value[index])
    return found


def obj(body: JsonObject, key: str, at: str) -> JsonObject:
    """A required object."""
    if key not in body:
        raise InvalidRequest(at, "required, but missing")
    value = body[key]
    if not is_object(value):
        refuse(at, "an object", value)
    return value
