"""A chat completion request: the caller's JSON to `ChatRequest`. `call.py` writes what a backend is sent.

Only what the engine acts on is read and checked; every other field goes on as it came, and is the backend's to judge.
"""

from __future__ import annotations

from collections.abc import Generator

import orjson

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.errors import InvalidRequest, OutOfMemory
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.body import is_out_of_memory
from forge_proxy.wire.clients import fields
from forge_proxy.wire.large_json import read_slices

MAX_CHOICES = 128
"""Largest `n`, as OpenAI documents it: each choice of a guarded request has a stream gate of its own."""
MAX_TOOLS = 512
"""Tools of one request. OpenAI takes 128; so many compiled schemas are kept (`core/guardrails/schema/compiled.py`)."""
MAX_TOOL_NAME = 256
"""Characters of a tool's name. OpenAI takes 64; the rescue parser keeps the beginnings of names."""
ROLES = ("developer", "system", "user", "assistant", "tool", "function")
"""The roles of OpenAI's API."""
_TEMPLATE_ROLES = (
    "available_tools", "context", "control", "document", "documents", "ipython", "latest_reminder", "observation",
    "tool_response", "tools",
)  # fmt: skip
_KNOWN_ROLES = frozenset(ROLES + _TEMPLATE_ROLES)
"""The roles above, and those that chat templates of published models know besides them (Llama, GLM, Granite)."""
_MAX_LISTED_NAMES = 20


def read_body(raw: bytes | bytearray) -> JsonObject:
    """The JSON object of a request body. Raises `InvalidRequest` or `OutOfMemory`."""
    if not raw:
        raise InvalidRequest("body", "empty; send a JSON object")
    try:
        return _object(orjson.loads(raw))
    except orjson.JSONDecodeError as exc:
        raise _not_json(exc) from exc


def read_large_body(raw: bytes | bytearray) -> Generator[None, None, JsonObject]:
    """The same in slices, between which it yields."""
    try:
        return _object((yield from read_slices(raw)))
    except orjson.JSONDecodeError as exc:
        raise _not_json(exc) from exc


def _object(value: Json) -> JsonObject:
    if not is_object(value):
        fields.refuse("body", "a JSON object", value)
    return value


def _not_json(exc: orjson.JSONDecodeError) -> InvalidRequest | OutOfMemory:
    return OutOfMemory("the body") if is_out_of_memory(exc) else InvalidRequest("body", f"not valid JSON: {exc}")


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
        choices=fields.count(body, "n", least=1, most=MAX_CHOICES) or 1,
        # llama.cpp takes -1 for "no limit"
        limit=min((limit for limit in limits if limit >= 0), default=None),
    )


def _messages(body: JsonObject) -> list[JsonObject]:
    if "messages" not in body:
        raise InvalidRequest("messages", "required, but missing")
    messages = fields.objects(body, "messages", "messages")
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
    role = fields.text(message, "role", f"{at}.role")
    if role not in _KNOWN_ROLES and not role.startswith("document "):  # Granite's documents: "document 1"
        raise InvalidRequest(f"{at}.role", f"expected one of {', '.join(ROLES)}; got {role[:40]!r}")
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
    listed = fields.objects(body, "tools", "tools")
    if len(listed) > MAX_TOOLS:
        raise InvalidRequest("tools", f"expected at most {MAX_TOOLS} tools, got {len(listed)}")
    for index, tool in enumerate(listed):
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
    if len(name) > MAX_TOOL_NAME:
        why = f"expected at most {MAX_TOOL_NAME} characters, got {len(name)}"
        raise InvalidRequest(f"tools[{index}].function.name", why)
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
            listed = ", ".join(sorted(offered)[:_MAX_LISTED_NAMES])
            more = ", ..." if len(offered) > _MAX_LISTED_NAMES else ""
            raise InvalidRequest("tool_choice", f"no tool {name[:MAX_TOOL_NAME]!r} in tools; there is {listed}{more}")
    return names
