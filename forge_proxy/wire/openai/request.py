"""A chat completion request: the caller's JSON to `ChatRequest`. `call.py` writes what a backend is sent.

Only what the engine acts on is read and checked; every other field goes on as it came, and is the backend's to judge.
"""

from __future__ import annotations

import orjson

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.errors import InvalidRequest, OutOfMemory
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.body import is_out_of_memory
from forge_proxy.wire.openai import fields


def read_body(raw: bytes) -> JsonObject:
    """The JSON object of a request body. Raises `InvalidRequest` or `OutOfMemory`."""
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        if is_out_of_memory(exc):
            raise OutOfMemory("the body") from exc
        raise InvalidRequest("body", f"not valid JSON: {exc}") from exc
    if not is_object(value):
        fields.refuse("body", "a JSON object", value)
    return value


def decode_request(body: JsonObject) -> ChatRequest:
    """What a chat completion request asks for. Raises `InvalidRequest` with the path of the field."""
    messages = tuple(_messages(body))
    tools = tuple(_tools(body))
    options = body.get("stream_options")
    if options is not None and not is_object(options):
        fields.refuse("stream_options", "an object", options)
    limits = [
        n for key in ("max_completion_tokens", "max_tokens") if (n := fields.count(body, key, least=-1)) is not None
    ]
    return ChatRequest(
        body=body,
        messages=messages,
        model=fields.optional_text(body, "model"),
        tools=tools,
        tool_choice=_tool_choice(body, tools),
        parallel=fields.flag(body, "parallel_tool_calls", "parallel_tool_calls", default=True),
        stream=fields.flag(body, "stream", "stream", default=False),
        include_usage=fields.flag(options or {}, "include_usage", "stream_options.include_usage", default=False),
        choices=fields.count(body, "n", least=1) or 1,
        # llama.cpp takes -1 for "no limit"
        limit=min((limit for limit in limits if limit >= 0), default=None),
    )


def _messages(body: JsonObject) -> list[JsonObject]:
    if "messages" not in body:
        raise InvalidRequest("messages", "required, missing")
    messages = fields.objects(body, "messages", "messages")
    if not messages:
        raise InvalidRequest("messages", "expected at least one message")
    for index, message in enumerate(messages):
        content, role = message.get("content"), message.get("role")
        if not (role and isinstance(role, str) and isinstance(content, str) and "tool_calls" not in message):
            _check_message(message, f"messages[{index}]")
    return messages


def _check_message(message: JsonObject, at: str) -> None:
    fields.text(message, "role", f"{at}.role")  # which roles there are is for the model's template to say
    content = message.get("content")
    if is_list(content):
        for number, part in enumerate(content):
            if not is_object(part) and not isinstance(part, str):
                fields.refuse(f"{at}.content[{number}]", "a content part", part)
    elif content is not None and not isinstance(content, str):
        fields.refuse(f"{at}.content", "text, a list of parts, or null", content)
    fields.objects(message, "tool_calls", f"{at}.tool_calls")


def _tools(body: JsonObject) -> list[ToolSpec]:
    """The function tools. Tools of other types are not ours to judge: a request with one of them passes through."""
    tools: list[ToolSpec] = []
    for index, tool in enumerate(fields.objects(body, "tools", "tools")):
        if tool.get("type") != "function":
            fields.text(tool, "type", f"tools[{index}].type")
            return []
        tools.append(_tool(tool, index))
    return tools


def _tool(tool: JsonObject, index: int) -> ToolSpec:
    function = tool.get("function")
    if not is_object(function):
        function = fields.obj(tool, "function", f"tools[{index}].function")
    name, description, schema = function.get("name"), function.get("description"), function.get("parameters")
    if not isinstance(name, str) or not name:
        name = fields.text(function, "name", f"tools[{index}].function.name")
    if schema is None:
        schema = True
    elif not is_object(schema) and not isinstance(schema, bool):
        fields.refuse(f"tools[{index}].function.parameters", "a JSON Schema", schema)
    return ToolSpec(name, schema, description if isinstance(description, str) else "")


def _tool_choice(body: JsonObject, tools: tuple[ToolSpec, ...]) -> ToolChoice:
    said = body.get("tool_choice")
    if said is None:
        return ToolChoice()
    match said:
        case "none" | "auto" | "required":
            return ToolChoice(said)
        case "any":  # what Mistral's API and servers after it call `required`
            return ToolChoice("required")
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return ToolChoice("required", _known((name,), tools))
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(listed)},
        }:
            if not listed:
                raise InvalidRequest("tool_choice.allowed_tools.tools", "expected at least one tool")
            return ToolChoice(mode, _known(tuple(_allowed_names(listed)), tools))
        case {"type": "custom", "custom": {"name": str(name)}} | {"type": "custom", "name": str(name)}:
            _known((name,), tools)
            return ToolChoice("none")  # with a tool of another kind none is ours, so there is nothing for us to judge
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


def _known(names: tuple[str, ...], tools: tuple[ToolSpec, ...]) -> tuple[str, ...]:
    offered = {tool.name for tool in tools}
    for name in names:
        if tools and name not in offered:
            raise InvalidRequest("tool_choice", f"no tool {name!r} in tools; there is {', '.join(sorted(offered))}")
    return names
