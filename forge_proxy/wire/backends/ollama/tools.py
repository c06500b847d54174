"""Encodes tools for Ollama, which supports a subset of JSON Schema, rejects other types and silently drops references.

A schema outside the subset is sent in simplified form (`core/simplify_schema.py`), so that the model sees all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.simplify_schema import simplify_schema

_DROPPED = frozenset({"$ref", "allOf", "oneOf", "const"})
"""Keywords for the type of a value that Ollama ignores. It ignores bounds and patterns too, and so does the simplified
form; calls are validated against the client's own schema in any case.
"""
_MAX_DEPTH = 40


def encode_tools(tools: Json, *, simple: bool = False) -> list[Json]:
    """Encode the tools of a request. `simple` simplifies every schema."""
    return [_tool(tool, simple) for tool in tools] if is_list(tools) else []


def encode_spec(tool: ToolSpec) -> Json:
    """Encode a tool of the daemon."""
    return _function({"name": tool.name, "description": tool.description, "parameters": tool.parameters}, False)


def _tool(tool: Json, simple: bool) -> Json:
    function = tool.get("function") if is_object(tool) else None
    return _function(function, simple) if is_object(function) else tool


def _function(function: Mapping[str, Json], simple: bool) -> Json:
    schema = function.get("parameters")
    if not is_object(schema) or simple or schema.get("type") != "object" or not _is_supported(schema, 0):
        schema = simplify_schema(schema if is_object(schema) else True)
    # Without `properties`, the model's template gets null, and some templates fail on it.
    parameters: Json = schema if is_object(schema.get("properties")) else {**schema, "properties": {}}
    out: dict[str, Json] = {"name": function.get("name"), "parameters": parameters}
    if isinstance(description := function.get("description"), str):
        out["description"] = description
    return {"type": "function", "function": out}


def _is_supported(schema: Json, depth: int) -> bool:
    """Return whether Ollama accepts a subschema and every keyword in it that affects types."""
    if not is_object(schema) or depth > _MAX_DEPTH or not _DROPPED.isdisjoint(schema):
        return False
    if not isinstance(schema.get("description", ""), str) or not _are_names(schema.get("required")):
        return False
    if not is_list(schema.get("enum", [])):
        return False
    kind, fields = schema.get("type"), schema.get("properties")
    if kind is not None and not isinstance(kind, str) and not (kind and _are_names(kind)):
        return False
    inner: list[Json] = list(fields.values()) if is_object(fields) else []
    if fields is not None and not is_object(fields):
        return False
    if (options := schema.get("anyOf")) is not None:
        if not is_list(options) or depth == 0:
            return False
        inner += options
    if "items" in schema:
        inner.append(schema["items"])
    return all(_is_supported(part, depth + 1) for part in inner)


def _are_names(value: Json) -> bool:
    return value is None or (is_list(value) and all(isinstance(name, str) for name in value))
