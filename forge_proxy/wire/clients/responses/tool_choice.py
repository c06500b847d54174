"""Converts `tool_choice` to that of a chat completion."""

from __future__ import annotations

from forge_proxy.core.chat import ToolChoice
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.wire.clients.responses.tools import OfferedTool, OfferedTools

_FORMS = "none, auto, required, {type: function or custom, name} or {type: allowed_tools, mode, tools}"
_MAX_QUOTED = 60


def decode_tool_choice(choice: Json, tools: OfferedTools) -> tuple[ToolChoice, Json]:
    """Return the choice, and as a chat completion writes it; None if the client leaves it to the default.

    Raises `InvalidRequest` if it requires a tool that is not offered.
    """
    match choice:
        case None:
            return ToolChoice(), None
        case "none" | "auto":
            return ToolChoice(choice), choice if tools.tools else None
        case "required":
            if not tools.tools:
                raise InvalidRequest("tool_choice", "requires a call, but no supported tool is offered")
            return ToolChoice("required"), "required"
        case {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": list(listed)} if listed:
            found = [tool for at, one in enumerate(listed) for tool in _find(one, tools, f"tool_choice.tools[{at}]")]
            written: Json = [_encode_choice(tool) for tool in found]
            allowed: JsonObject = {"mode": mode, "tools": written}
            names = tuple(tool.spec.name for tool in found)
            return ToolChoice(mode, names), {"type": "allowed_tools", "allowed_tools": allowed}
        case {"type": str()}:
            (tool,) = _find(choice, tools, "tool_choice")[:1]
            return ToolChoice("required", (tool.spec.name,)), _encode_choice(tool)
        case _:
            raise InvalidRequest("tool_choice", f"expected {_FORMS}")


def _encode_choice(tool: OfferedTool) -> Json:
    return {"type": "function", "function": {"name": tool.spec.name}}


def _find(choice: Json, tools: OfferedTools, at: str) -> list[OfferedTool]:
    """Return the tools that one entry names: usually one, or all those of a namespace."""
    match choice:
        case {"type": "function" | "custom", "name": str(name), "namespace": str(namespace)}:
            found = [tool for tool in tools.tools if (tool.namespace, tool.name) == (namespace, name)]
        case {"type": "function" | "custom", "name": str(name)}:
            found = [tool for tool in tools.tools if name in (tool.spec.name, tool.name)]
        case {"type": "namespace", "name": str(name)}:
            found = [tool for tool in tools.tools if tool.namespace == name]
        case {"type": str(name)}:
            found = [tool for tool in tools.tools if tool.kind == "client" and tool.name == name]
        case _:
            raise InvalidRequest(at, "expected {type, name}")
    if not found:
        raise InvalidRequest(at, f"no supported tool {name[:_MAX_QUOTED]!r} is offered")
    return found
