"""Tools and the choice among them, in Anthropic's words."""

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
"""Characters of a tool's name; the server's own rule is `^[a-zA-Z0-9_-]{1,128}$`."""
_ANY_OBJECT: Json = {"type": "object"}


class ToolNames:
    """Names of tools as the server takes them, and back: MCP names hold dots and slashes."""

    def __init__(self, names: Iterable[str]) -> None:
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for name in names:
            self.there(name)

    def there(self, name: str) -> str:
        """The name to send for one of the caller's."""
        if name not in self._there:
            stem = _FOREIGN.sub("_", name)[:_LONGEST] or "_"
            taken, number = stem, 1
            while taken in self._back:
                number += 1
                taken = f"{stem[: _LONGEST - 4]}_{number}"
            self._there[name], self._back[taken] = taken, name
        return self._there[name]

    def back(self, name: str) -> str:
        """The caller's name for one that the server says."""
        return self._back.get(name, name)


def names_of(call: ModelCall) -> ToolNames:
    """The names of a call's tools. In the order of the tools, so that each turn writes them the same."""
    offered = _offered(call)
    functions = [function for tool in offered if is_object(function := tool.get("function"))]
    names = [name for function in functions if isinstance(name := function.get("name"), str)]
    return ToolNames([*names, *([call.respond.name] if call.respond else [])])


def tools_of(call: ModelCall, names: ToolNames, called: Sequence[str]) -> list[Json]:
    """The tools to offer. `called` are those that the history calls: without any tools the server would refuse it."""
    wanted = {tool.name for tool in call.required_tools}
    tools: list[Json] = []
    for place, tool in enumerate(_offered(call)):
        written = _tool(tool, names, f"tools[{place}]", simple=call.dialect.plain_schemas)
        function = tool.get("function")
        if not wanted or (is_object(function) and function.get("name") in wanted):
            tools.append(written)
    if call.respond is not None and not wanted:
        tools.append(_encode(call.respond, names))
    return tools or [{"name": name, "input_schema": _ANY_OBJECT} for name in dict.fromkeys(called)]


def choice_of(call: ModelCall, names: ToolNames) -> Block | None:
    """`tool_choice` among the tools of `tools_of`; None where the server's default is meant.

    A choice among several tools is said as `any`: that none of the others is called is ours to see to. A demand that is
    not in the body is ours too, until the call states `required_tools`: a workflow lets the model think first.
    """
    request, mode = call.request, call.request.tool_choice.mode
    if mode == "none" or not _offered(call):
        return {"type": "none"}
    wanted = tuple(tool.name for tool in call.required_tools) or request.tool_choice.names
    choice: Block = {"type": "auto"}
    is_told = bool(call.required_tools) or "tool_choice" in request.body
    if mode == "required" and is_told and call.dialect.forced_choice:
        choice = {"type": "tool", "name": names.there(wanted[0])} if len(wanted) == 1 else {"type": "any"}
    if not request.parallel:
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice


def _offered(call: ModelCall) -> list[JsonObject]:
    said = call.request.body.get("tools")
    return [tool for tool in said if is_object(tool)] if is_list(said) else []


def _tool(tool: JsonObject, names: ToolNames, at: str, *, simple: bool) -> Json:
    function = tool.get("function")
    if tool.get("type") != "function" or not is_object(function):
        if "custom" in tool or not isinstance(tool.get("name"), str):
            raise InvalidRequest(at, f"the anthropic backend takes function tools, no {tool.get('type')!r} tool")
        return tool  # one of Anthropic's own
    name, schema = function.get("name"), function.get("parameters")
    described = function.get("description")
    out: Block = {"name": names.there(name if isinstance(name, str) else "")}
    if isinstance(described, str) and described:
        out["description"] = described
    out["input_schema"] = simplify_schema(schema if is_object(schema) else True) if simple else _schema(schema)
    mark = tool.get(CACHE) or function.get(CACHE)
    return {**out, CACHE: mark} if mark is not None else out


def _encode(tool: ToolSpec, names: ToolNames) -> Json:
    return {
        "name": names.there(tool.name),
        "description": tool.description,
        "input_schema": _schema(tool.parameters),
    }


def _schema(schema: Json) -> Json:
    """The schema as the caller sent it; the server insists on a type."""
    if not is_object(schema):
        return _ANY_OBJECT
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}
