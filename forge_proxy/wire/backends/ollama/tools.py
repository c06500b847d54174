"""Tools as Ollama reads them. It knows a part of JSON Schema, refuses what does not fit that part, and drops references
without a word: a schema with such things is sent as its projection, so that the model gets to see all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.simplify_schema import simplify_schema

_DROPPED = frozenset({"$ref", "allOf", "oneOf", "const"})
"""Words that say what a value is, and that Ollama passes over. Bounds and patterns it passes over too, and so does the
projection; calls are checked against the caller's own schema in any case.
"""
_DEEPEST = 40


def encode_tools(tools: Json, *, plainly: bool = False) -> list[Json]:
    """The tools of a request; `plainly` sends every schema as its projection."""
    return [_tool(tool, plainly) for tool in tools] if is_list(tools) else []


def encode_spec(tool: ToolSpec) -> Json:
    """A tool of our own."""
    return _function({"name": tool.name, "description": tool.description, "parameters": tool.parameters}, False)


def _tool(tool: Json, plainly: bool) -> Json:
    function = tool.get("function") if is_object(tool) else None
    return _function(function, plainly) if is_object(function) else tool


def _function(function: Mapping[str, Json], plainly: bool) -> Json:
    schema = function.get("parameters")
    if not is_object(schema) or plainly or schema.get("type") != "object" or not _is_read(schema, 0):
        schema = simplify_schema(schema if is_object(schema) else True)
    # Without properties the model's template would be given null, and some fail on that.
    parameters: Json = schema if is_object(schema.get("properties")) else {**schema, "properties": {}}
    out: dict[str, Json] = {"name": function.get("name"), "parameters": parameters}
    if isinstance(description := function.get("description"), str):
        out["description"] = description
    return {"type": "function", "function": out}


def _is_read(schema: Json, depth: int) -> bool:
    """Whether Ollama reads a part of a schema, and all of it that says what a value is."""
    if not is_object(schema) or depth > _DEEPEST or not _DROPPED.isdisjoint(schema):
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
    return all(_is_read(part, depth + 1) for part in inner)


def _are_names(value: Json) -> bool:
    return value is None or (is_list(value) and all(isinstance(name, str) for name in value))
