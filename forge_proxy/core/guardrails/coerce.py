"""Turns argument values into the type their schema asks for, where nothing is lost by it.

A number or boolean that came as a string (as XML-like forms give them), an object or array that came as JSON text. A
value whose schema allows a string is never touched.
"""

from __future__ import annotations

from forge_proxy.core.chat import Schema
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, kind_of, read_object, read_value


def coerce_args(schema: Schema, args: JsonObject) -> tuple[dict[str, Json], tuple[str, ...]]:
    """The arguments with their types mended, and which ones were, as `days: string → integer`."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(properties):
        return dict(args), ()
    mended: dict[str, Json] = {}
    changes: list[str] = []
    for name, value in args.items():
        mended[name] = coerce_value(properties.get(name), value)
        if mended[name] is not value:
            changes.append(f"{name}: {kind_of(value)} → {kind_of(mended[name])}")
    return mended, tuple(changes)


def coerce_value(schema: Json, value: Json) -> Json:
    """The value as its schema wants it; the very same value where it fits already or nothing lossless is known."""
    if not isinstance(value, str) or not is_object(schema):
        return value
    wanted = schema.get("type")
    types: list[Json] = [wanted] if isinstance(wanted, str) else wanted if is_list(wanted) else []
    if not types or "string" in types:
        return value
    text = value.strip(" \t\r\n")
    if text in ("True", "False", "None"):
        text = {"True": "true", "False": "false", "None": "null"}[text]
    read = read_value(text, 0)
    if read is None or read[1] != len(text):
        return value
    return read[0] if _fits(read[0], types) else value


def _fits(value: Json, types: list[Json]) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return "integer" in types or "number" in types
        case float():
            return "number" in types
        case list():
            return "array" in types
        case str():
            return False
        case _:
            return "object" in types


def read_arguments(text: str) -> dict[str, Json] | None:
    """Arguments as an object, also where the object was written as a JSON string once more; None for anything else."""
    args = read_object(text)
    if args is not None:
        return args
    text = text.strip()
    inner = read_value(text, 0)
    whole = inner is not None and inner[1] == len(text)
    return read_object(inner[0]) if inner and whole and isinstance(inner[0], str) else None
