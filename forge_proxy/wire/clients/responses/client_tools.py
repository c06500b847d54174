"""Tools with a type of their own that the client executes: `local_shell`, `shell`, `apply_patch` and `tool_search`.

The model receives each as a function tool; its calls have items of their own type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A type of tool that the client executes, and the conversion of its calls."""

    type: str
    call_type: str
    description: str
    parameters: JsonObject
    to_fields: Callable[[JsonObject], JsonObject]
    """The fields of a call's item, from the arguments that the model wrote."""
    to_arguments: Callable[[JsonObject], JsonObject]
    """The arguments, from a call's item."""


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


def _present(values: JsonObject, *names: str) -> dict[str, Json]:
    return {name: values[name] for name in names if values.get(name) is not None}


def _action(item: JsonObject, *names: str) -> JsonObject:
    action = item.get("action")
    return _present(action, *names) if is_object(action) else {}


def _strings(value: Json) -> list[Json]:
    return [one for one in value if isinstance(one, str)] if is_list(value) else []


_LOCAL_SHELL = ClientTool(
    "local_shell",
    "local_shell_call",
    "Run a program on the user's machine and return its output.",
    _object(
        {
            "command": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments."},
            "working_directory": {"type": "string"},
            "timeout_ms": {"type": "integer"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "command",
    ),
    lambda arguments: {
        "action": {
            "type": "exec",
            "command": _strings(arguments.get("command")),
            "env": arguments.get("env") or {},
            **_present(arguments, "timeout_ms", "working_directory"),
        }
    },
    lambda item: _action(item, "command", "working_directory", "timeout_ms", "env"),
)

_SHELL = ClientTool(
    "shell",
    "shell_call",
    "Run shell commands on the user's machine and return their output.",
    _object(
        {
            "commands": {"type": "array", "items": {"type": "string"}, "description": "The commands, run in order."},
            "timeout_ms": {"type": "integer"},
            "max_output_length": {"type": "integer"},
        },
        "commands",
    ),
    lambda arguments: {
        "action": {
            "commands": _strings(arguments.get("commands")),
            "timeout_ms": arguments.get("timeout_ms"),
            "max_output_length": arguments.get("max_output_length"),
        },
        "environment": {"type": "local"},
    },
    lambda item: _action(item, "commands", "timeout_ms", "max_output_length"),
)

_APPLY_PATCH = ClientTool(
    "apply_patch",
    "apply_patch_call",
    "Create, update or delete one file. A diff has lines that begin with a space, + or -, under @@ headers.",
    _object(
        {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": {"type": "string"},
            "diff": {"type": "string", "description": "The change; not for delete_file."},
        },
        "type",
        "path",
    ),
    lambda arguments: {"operation": _present(arguments, "type", "path", "diff")},
    lambda item: operation if is_object(operation := item.get("operation")) else {},
)

_TOOL_SEARCH = ClientTool(
    "tool_search",
    "tool_search_call",
    "Search for further tools.",
    _object({"query": {"type": "string"}}, "query"),
    lambda arguments: {"execution": "client", "arguments": arguments},
    lambda item: arguments if is_object(arguments := item.get("arguments")) else {},
)

CLIENT_TOOLS: Mapping[str, ClientTool] = {
    tool.type: tool for tool in (_LOCAL_SHELL, _SHELL, _APPLY_PATCH, _TOOL_SEARCH)
}
"""By the type of the tool, which is the name that the model sees."""
BY_CALL_TYPE: Mapping[str, ClientTool] = {tool.call_type: tool for tool in CLIENT_TOOLS.values()}


def is_client_executed(tool: JsonObject) -> bool:
    """Whether the client executes a tool of one of these types; the service executes some of them by request."""
    environment = tool.get("environment")
    match tool.get("type"):
        case "shell":
            return environment is None or (is_object(environment) and environment.get("type") == "local")
        case "tool_search":
            return tool.get("execution") == "client"
        case _:
            return True
