"""Encodes tools and `tool_choice` in Anthropic's format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from forge_proxy.core.chat import ModelCall, ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.simplify_schema import simplify_schema
from forge_proxy.wire.backends.anthropic.blocks import CACHE, Block

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = 128
"""Maximum characters of a tool name; the API requires `^[a-zA-Z0-9_-]{1,128}$`."""
_ANY_OBJECT: Json = {"type": "object"}


class ToolNames:
    """Maps tool names to names that the server accepts, and back: MCP tool names contain dots and slashes."""

    def __init__(self, names: Iterable[str]) -> None:
        self._sent_names: dict[str, str] = {}
        self._client_names: dict[str, str] = {}
        for name in names:
            self.encode(name)

    def encode(self, name: str) -> str:
        """Return the name to send for a client's name."""
        if name not in self._sent_names:
            stem = _FOREIGN.sub("_", name)[:_LONGEST] or "_"
            unique, number = stem, 1
            while unique in self._client_names:
                number += 1
                unique = f"{stem[: _LONGEST - 4]}_{number}"
            self._sent_names[name], self._client_names[unique] = unique, name
        return self._sent_names[name]

    def decode(self, name: str) -> str:
        """Return the client's name for a name in a response."""
        return self._client_names.get(name, name)


def collect_tool_names(call: ModelCall) -> ToolNames:
    """Return the names of a call's tools. In the order of the tools, so that each turn encodes them the same."""
    offered = _list_tools(call)
    functions = [function for tool in offered if is_object(function := tool.get("function"))]
    names = [name for function in functions if isinstance(name := function.get("name"), str)]
    return ToolNames([*names, *([call.respond.name] if call.respond else [])])


def encode_tools(call: ModelCall, names: ToolNames, called: Sequence[str]) -> list[Json]:
    """Return the tools of the request. `called` are the tools called in the history: without any tools in the request,
    the server would reject that history.
    """
    required = {tool.name for tool in call.required_tools}
    tools: list[Json] = []
    for place, tool in enumerate(_list_tools(call)):
        written = _tool(tool, names, f"tools[{place}]", simple=call.dialect.plain_schemas)
        function = tool.get("function")
        if not required or (is_object(function) and function.get("name") in required):
            tools.append(written)
    if call.respond is not None and (not required or call.respond.name in required):
        tools.append(_encode(call.respond, names))
    return tools or [{"name": name, "input_schema": _ANY_OBJECT} for name in dict.fromkeys(called)]


def encode_tool_choice(call: ModelCall, names: ToolNames) -> Block | None:
    """Return `tool_choice`; None for the server's default.

    A choice of several tools becomes `any`; the guardrails reject calls of other tools. A required call that is not in
    the client's body is sent only if the call has `required_tools`: a workflow lets the model reason first.
    """
    request, mode = call.request, call.request.tool_choice.mode
    if mode == "none" or not _list_tools(call):
        return {"type": "none"}
    required = tuple(tool.name for tool in call.required_tools) or request.tool_choice.names
    choice: Block = {"type": "auto"}
    is_forced = bool(call.required_tools) or (mode == "required" and "tool_choice" in request.body)
    if is_forced and call.dialect.forced_choice:
        choice = {"type": "tool", "name": names.encode(required[0])} if len(required) == 1 else {"type": "any"}
    if not request.parallel:
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice


def _list_tools(call: ModelCall) -> list[JsonObject]:
    listed = call.request.body.get("tools")
    return [tool for tool in listed if is_object(tool)] if is_list(listed) else []


def _tool(tool: JsonObject, names: ToolNames, at: str, *, simple: bool) -> Json:
    function = tool.get("function")
    if tool.get("type") != "function" or not is_object(function):
        if "custom" in tool or not isinstance(tool.get("name"), str):
            raise InvalidRequest(at, f"the anthropic backend takes function tools, no {tool.get('type')!r} tool")
        return tool  # in Anthropic's own format
    name, schema = function.get("name"), function.get("parameters")
    described = function.get("description")
    out: Block = {"name": names.encode(name if isinstance(name, str) else "")}
    if isinstance(described, str) and described:
        out["description"] = described
    out["input_schema"] = simplify_schema(schema if is_object(schema) else True) if simple else _schema(schema)
    mark = tool.get(CACHE) or function.get(CACHE)
    return {**out, CACHE: mark} if mark is not None else out


def _encode(tool: ToolSpec, names: ToolNames) -> Json:
    return {
        "name": names.encode(tool.name),
        "description": tool.description,
        "input_schema": _schema(tool.parameters),
    }


def _schema(schema: Json) -> Json:
    """Return the client's schema; the server requires a type."""
    if not is_object(schema):
        return _ANY_OBJECT
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}
