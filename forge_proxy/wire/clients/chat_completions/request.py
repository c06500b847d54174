"""Decodes a chat completion request to a `ChatRequest`. `wire/backends` encodes the request for a model server.

Only the fields that the engine uses are parsed and validated. All others are forwarded unchanged; the backend validates
them.
"""

from __future__ import annotations

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields

MAX_CHOICES = 128
"""Maximum `n`, as in OpenAI's API: each choice of a guarded request needs its own stream gate."""
MAX_TOOLS = 512
"""Maximum number of tools. OpenAI's is 128; this many compiled schemas are cached (`core/guardrails/schema.py`)."""
MAX_TOOL_NAME = 256
"""Maximum characters of a tool name. OpenAI's is 64; the rescue parser stores prefixes of names."""
ROLES = ("developer", "system", "user", "assistant", "tool", "function")
"""The roles of OpenAI's API."""
_TEMPLATE_ROLES = (
    "available_tools", "context", "control", "document", "documents", "ipython", "latest_reminder", "observation",
    "tool_response", "tools",
)  # fmt: skip
_KNOWN_ROLES = frozenset(ROLES + _TEMPLATE_ROLES)
"""OpenAI's roles and those that chat templates of published models use in addition (Llama, GLM, Granite)."""
_MAX_LISTED_NAMES = 20


def decode_request(body: JsonObject) -> ChatRequest:
    """Decode a parsed body. Raises `InvalidRequest` with the path of the field."""
    messages = tuple(_messages(body))
    tools = tuple(_tools(body))
    options = body.get("stream_options")
    if options is not None and not is_object(options):
        fields.reject("stream_options", "an object", options)
    limits = [
        n
        for key in ("max_completion_tokens", "max_tokens")
        if (n := fields.read_count(body, key, least=-1)) is not None
    ]
    return ChatRequest(
        body=body,
        messages=messages,
        model=fields.read_optional_text(body, "model"),
        tools=tools,
        tool_choice=_tool_choice(body, tools),
        parallel=fields.read_flag(body, "parallel_tool_calls", "parallel_tool_calls", default=True),
        stream=fields.read_flag(body, "stream", "stream", default=False),
        include_usage=fields.read_flag(options or {}, "include_usage", "stream_options.include_usage", default=False),
        choices=fields.read_count(body, "n", least=1, most=MAX_CHOICES) or 1,
        # llama.cpp's -1 means no limit
        limit=min((limit for limit in limits if limit >= 0), default=None),
    )


def _messages(body: JsonObject) -> list[JsonObject]:
    if "messages" not in body:
        raise InvalidRequest("messages", "required, but missing")
    messages = fields.read_objects(body, "messages")
    if not messages:
        raise InvalidRequest("messages", "expected at least one message")
    for index, message in enumerate(messages):
        content, role = message.get("content"), message.get("role")
        if not (
            isinstance(role, str) and role in _KNOWN_ROLES and isinstance(content, str) and "tool_calls" not in message
        ):
            _check_message(message, f"messages[{index}]")
    return messages


def _check_message(message: JsonObject, at: str) -> None:
    role = fields.read_text(message, "role", at)
    if role not in _KNOWN_ROLES and not role.startswith("document "):  # Granite's documents: "document 1"
        raise InvalidRequest(f"{at}.role", f"expected one of {', '.join(ROLES)}; got {role[:40]!r}")
    content = message.get("content")
    if is_list(content):
        for number, part in enumerate(content):
            if not is_object(part) and not isinstance(part, str):
                fields.reject(f"{at}.content[{number}]", "a content part", part)
    elif content is not None and not isinstance(content, str):
        fields.reject(f"{at}.content", "text, a list of parts, or null", content)
    fields.read_objects(message, "tool_calls", at)


def _tools(body: JsonObject) -> list[ToolSpec]:
    """Return the function tools; none if there is a tool of another type: such a request passes through unguarded."""
    tools: list[ToolSpec] = []
    listed = fields.read_objects(body, "tools")
    if len(listed) > MAX_TOOLS:
        raise InvalidRequest("tools", f"expected at most {MAX_TOOLS} tools, got {len(listed)}")
    for index, tool in enumerate(listed):
        if tool.get("type") != "function":
            fields.read_text(tool, "type", f"tools[{index}]")
            return []
        tools.append(_tool(tool, index))
    return tools


def _tool(tool: JsonObject, index: int) -> ToolSpec:
    function = tool.get("function")
    if not is_object(function):
        function = fields.read_object(tool, "function", f"tools[{index}]")
    name, description, schema = function.get("name"), function.get("description"), function.get("parameters")
    if not isinstance(name, str) or not name:
        name = fields.read_text(function, "name", f"tools[{index}].function")
    if len(name) > MAX_TOOL_NAME:
        why = f"expected at most {MAX_TOOL_NAME} characters, got {len(name)}"
        raise InvalidRequest(f"tools[{index}].function.name", why)
    if schema is None:
        schema = True
    elif not is_object(schema) and not isinstance(schema, bool):
        fields.reject(f"tools[{index}].function.parameters", "a JSON Schema", schema)
    return ToolSpec(name, schema, description if isinstance(description, str) else "")


def _tool_choice(body: JsonObject, tools: tuple[ToolSpec, ...]) -> ToolChoice:
    choice = body.get("tool_choice")
    if choice is None:
        return ToolChoice()
    match choice:
        case "none" | "auto" | "required":
            return ToolChoice(choice)
        case "any":  # Mistral's name for `required`
            return ToolChoice("required")
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return ToolChoice("required", _check_names((name,), tools))
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(listed)},
        }:
            if not listed:
                raise InvalidRequest("tool_choice.allowed_tools.tools", "expected at least one tool")
            return ToolChoice(mode, _check_names(tuple(_allowed_names(listed)), tools))
        case {"type": "custom", "custom": {"name": str(name)}} | {"type": "custom", "name": str(name)}:
            _check_names((name,), tools)
            return ToolChoice("none")  # a custom tool: no call of this request is validated
        case _:
            forms = "{type: function, function: {name}} or {type: allowed_tools, allowed_tools: {mode, tools}}"
            raise InvalidRequest("tool_choice", f"expected none, auto, required, {forms}")


def _allowed_names(listed: list[Json]) -> list[str]:
    names: list[str] = []
    for index, item in enumerate(listed):
        match item:
            case {"type": "function", "function": {"name": str(name)}} | {
                "type": "function",
                "name": str(name),
            }:
                names.append(name)
            case _:
                raise InvalidRequest(
                    f"tool_choice.allowed_tools.tools[{index}]", "expected {type: function, function: {name}}"
                )
    return names


def _check_names(names: tuple[str, ...], tools: tuple[ToolSpec, ...]) -> tuple[str, ...]:
    offered = {tool.name for tool in tools}
    for name in names:
        if tools and name not in offered:
            listed = ", ".join(sorted(offered)[:_MAX_LISTED_NAMES])
            more = ", ..." if len(offered) > _MAX_LISTED_NAMES else ""
            raise InvalidRequest("tool_choice", f"no tool {name[:MAX_TOOL_NAME]!r} in tools; there is {listed}{more}")
    return names
