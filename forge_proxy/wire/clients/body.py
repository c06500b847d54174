"""Parses the JSON object of a request body, of any client protocol."""

from __future__ import annotations

from collections.abc import Generator

import orjson

from forge_proxy.core.errors import InvalidRequest, OutOfMemory
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.body import is_out_of_memory
from forge_proxy.wire.clients import fields
from forge_proxy.wire.large_json import read_slices


def read_body(raw: bytes | bytearray) -> JsonObject:
    """Parse a request body. Raises `InvalidRequest` or `OutOfMemory`."""
    if not raw:
        raise InvalidRequest("body", "empty; send a JSON object")
    try:
        return _object(orjson.loads(raw))
    except orjson.JSONDecodeError as exc:
        raise _not_json(exc) from exc


def read_large_body(raw: bytes | bytearray) -> Generator[None, None, JsonObject]:
    """The same as `read_body`, in slices; yields between them."""
    try:
        return _object((yield from read_slices(raw)))
    except orjson.JSONDecodeError as exc:
        raise _not_json(exc) from exc


def _object(value: Json) -> JsonObject:
    if not is_object(value):
        fields.reject("body", "a JSON object", value)
    return value


def _not_json(exc: orjson.JSONDecodeError) -> InvalidRequest | OutOfMemory:
    return OutOfMemory("the body") if is_out_of_memory(exc) else InvalidRequest("body", f"not valid JSON: {exc}")
