"""Reads the fields of a request body. The functions raise `InvalidRequest` with the path of an invalid value.

`within` is the path of the object that has the field, empty for the body: the path of the field is only put together
for an error, since a request has hundreds of fields.
"""

from __future__ import annotations

from typing import NoReturn

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object, kind_of


def reject(at: str, expected: str, got: Json) -> NoReturn:
    """Raise `InvalidRequest` for a value of the wrong type."""
    raise InvalidRequest(at, f"expected {expected}, got {kind_of(got)}")


def read_text(body: JsonObject, key: str, within: str = "") -> str:
    """Return a required, non-empty string."""
    value = body.get(key)
    if isinstance(value, str) and value:
        return value
    at = _path(within, key)
    if key not in body:
        raise InvalidRequest(at, "required, but missing")
    if not isinstance(value, str):
        reject(at, "a string", value)
    raise InvalidRequest(at, "must not be empty")


def read_optional_text(body: JsonObject, key: str) -> str | None:
    """Return a string; None if it is null or missing."""
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        reject(key, "a string", value)
    return value


def read_flag(body: JsonObject, key: str, at: str, default: bool) -> bool:  # the default of a flag is a flag
    """Return a boolean; `default` if it is null or missing."""
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        reject(at, "true or false", value)
    return value


def read_count(body: JsonObject, key: str, least: int, most: int | None = None) -> int | None:
    """Return an integer from `least` to `most`; None if it is null or missing."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not is_integer(value):
        reject(key, "an integer", value)
    if value < least:
        raise InvalidRequest(key, f"expected at least {least}, got {value}")
    if most is not None and value > most:
        raise InvalidRequest(key, f"expected at most {most}, got {value}")
    return value


def read_objects(body: JsonObject, key: str, within: str = "") -> list[JsonObject]:
    """Return a list of objects; empty if it is null or missing."""
    value = body.get(key)
    return [] if value is None else check_objects(value, _path(within, key))


def check_objects(value: Json, at: str) -> list[JsonObject]:
    """Return the list of objects at the path `at`."""
    if not is_list(value):
        reject(at, "a list", value)
    found: list[JsonObject] = [item for item in value if is_object(item)]
    if len(found) < len(value):
        index = next(index for index, item in enumerate(value) if not is_object(item))
        reject(f"{at}[{index}]", "an object", value[index])
    return found


def read_object(body: JsonObject, key: str, within: str = "") -> JsonObject:
    """Return a required object."""
    value = body.get(key)
    if is_object(value):
        return value
    at = _path(within, key)
    if key not in body:
        raise InvalidRequest(at, "required, but missing")
    reject(at, "an object", value)


def _path(within: str, key: str) -> str:
    return f"{within}.{key}" if within else key
