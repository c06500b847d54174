"""Converts Anthropic's tools and `tool_choice` to function tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from forge_proxy.core.chat import ToolChoice, ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.chat_completions.request import MAX_TOOL_NAME, MAX_TOOLS
from forge_proxy.wire.clients.messages.client_tools import find_client_tool
from forge_proxy.wire.clients.messages.dropped import DroppedParts, cut_field_name

_TOOL_SEARCH = "tool_search_tool"
"""Begins the type of the server tools that find deferred tools."""
_EXAMPLES = "input_examples"


class FunctionTool(NamedTuple):
    """A tool as the engine and as a model server see it."""

    spec: ToolSpec
    definition: JsonObject
    """The tool of a chat completion."""


def decode_tools(
    body: JsonObject, find_named_tools: Callable[[], Sequence[str]], dropped: DroppedParts
) -> list[FunctionTool]:
    """Return the function tools of a request. Raises `InvalidRequest` with the path of the field.

    A deferred tool is offered once the history refers to it, after all others: the prompt then still begins as before.
    `find_named_tools` returns the names in the history. Tools that Anthropic's servers run are dropped.
    """
    listed = fields.read_objects(body, "tools")
    if len(listed) > MAX_TOOLS:
        raise InvalidRequest("tools", f"expected at most {MAX_TOOLS} tools, got {len(listed)}")
    can_search = not any(str(tool.get("type")).startswith(_TOOL_SEARCH) for tool in listed)
    offered: list[FunctionTool] = []
    deferred: dict[str, FunctionTool] = {}
    for index, tool in enumerate(listed):
        function = _function(tool, f"tools[{index}]", dropped)
        if function is None:
            continue
        if tool.get("defer_loading") is True and can_search:
            deferred[function.spec.name] = function
        else:
            offered.append(function)
    wanted = [*find_named_tools(), *_find_chosen_tool(body)] if deferred else []
    return [*offered, *(deferred[name] for name in dict.fromkeys(wanted) if name in deferred)]


def decode_tool_choice(body: JsonObject, tools: Sequence[FunctionTool]) -> tuple[ToolChoice, dict[str, Json]]:
    """Return the choice, and the fields `tool_choice` and `parallel_tool_calls` of a chat completion.

    Raises `InvalidRequest`.
    """
    choice = body.get("tool_choice")
    if choice is None:
        return ToolChoice(), {}
    if not is_object(choice):
        fields.reject("tool_choice", "an object", choice)
    alone = fields.read_flag(
        choice, "disable_parallel_tool_use", "tool_choice.disable_parallel_tool_use", default=False
    )
    out: dict[str, Json] = {"parallel_tool_calls": False} if alone and tools else {}
    match choice:
        case {"type": "auto" | "none" as mode}:
            return (ToolChoice(mode), {**out, "tool_choice": mode}) if tools else (ToolChoice(), {})
        case {"type": "any"} if tools:
            return ToolChoice("required"), {**out, "tool_choice": "required"}
        case {"type": "tool", "name": str(name)} if any(tool.spec.name == name for tool in tools):
            named: JsonObject = {"type": "function", "function": {"name": name}}
            return ToolChoice("required", (name,)), {**out, "tool_choice": named}
        case {"type": "any" | "tool"} if not tools:
            raise InvalidRequest("tool_choice", "there is no tool that the model could call; offer a client tool")
        case {"type": "tool", "name": str(name)}:
            raise InvalidRequest("tool_choice.name", f"no tool {cut_field_name(name)!r} in tools")
        case _:
            raise InvalidRequest("tool_choice", "expected {type: auto}, {type: any}, {type: tool, name}, {type: none}")


def _function(tool: JsonObject, at: str, dropped: DroppedParts) -> FunctionTool | None:
    kind = tool.get("type")
    if kind is None or kind == "custom":
        schema = fields.read_object(tool, "input_schema", at)
        described = tool.get("description")
        description = described if isinstance(described, str) else ""
    elif (known := find_client_tool(tool)) is not None:
        description, schema = known
    else:
        kind = fields.read_text(tool, "type", at)
        dropped.add(at, f"{cut_field_name(kind)} runs on Anthropic's servers only")
        return None
    name = fields.read_text(tool, "name", at)
    if len(name) > MAX_TOOL_NAME:
        raise InvalidRequest(f"{at}.name", f"expected at most {MAX_TOOL_NAME} characters, got {len(name)}")
    callers = tool.get("allowed_callers")
    if is_list(callers) and callers and "direct" not in callers:
        dropped.add(at, "the tool is for code execution on Anthropic's servers only")
        return None
    if tool.get(_EXAMPLES):
        dropped.add(f"{at}.{_EXAMPLES}", "models see the schema only")
    function: dict[str, Json] = {"name": name, "description": description, "parameters": schema}
    if isinstance(tool.get("strict"), bool):
        function["strict"] = tool["strict"]
    return FunctionTool(ToolSpec(name, schema, description), {"type": "function", "function": function})


def _find_chosen_tool(body: JsonObject) -> list[str]:
    choice = body.get("tool_choice")
    name = choice.get("name") if is_object(choice) else None
    return [name] if isinstance(name, str) else []
