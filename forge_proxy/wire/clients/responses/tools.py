"""Converts tools to function tools, and the names of the model's calls back to the client's tools."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal

from forge_proxy.core.chat import Schema, ToolGrammar, ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.chat_completions.request import MAX_TOOL_NAME, MAX_TOOLS
from forge_proxy.wire.clients.responses.client_tools import CLIENT_TOOLS, is_client_executed

INPUT = "input"
"""The argument of a custom tool."""
_MAX_FLAT_NAME = 64
"""Maximum characters of the name of a function in a namespace, as OpenAI's limit for function names."""
_MAX_QUOTED = 40
_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}

ToolKind = Literal["function", "custom", "client"]


@fast_dataclass
class OfferedTool:
    """A tool of the client, and the function that the model sees in its place."""

    kind: ToolKind
    spec: ToolSpec
    name: str
    """The client's name; the type of a tool that has no name."""
    namespace: str | None
    function: JsonObject
    """The function's definition in a chat completion."""


class OfferedTools:
    """All tools of a request, by the names that the model sees."""

    def __init__(self) -> None:
        self.tools: list[OfferedTool] = []
        self.dropped: list[str] = []
        self._by_function: dict[str, OfferedTool] = {}
        self._function_of: dict[tuple[str | None, str], str] = {}

    def add(self, listed: Iterable[JsonObject], at: str) -> None:
        """Add a list of tools. Those that the service would execute are dropped. Raises `InvalidRequest`."""
        for index, tool in enumerate(listed):
            self._add(tool, f"{at}[{index}]")
        if len(self.tools) > MAX_TOOLS:
            raise InvalidRequest(at, f"expected at most {MAX_TOOLS} tools, got {len(self.tools)}")

    def find(self, function: str) -> OfferedTool | None:
        """Return the tool whose function the model called."""
        return self._by_function.get(function)

    def function_name(self, name: str, namespace: str | None) -> str:
        """Return the name by which the model knows a tool, even if it is no longer offered."""
        known = self._function_of.get((namespace, name))
        return known or (flatten_name(namespace, name) if namespace else name)

    def _add(self, tool: JsonObject, at: str) -> None:
        kind = fields.read_text(tool, "type", at)
        match kind:
            case "function" | "custom":
                self._add_named(tool, kind, at, None)
            case "namespace":
                namespace = _name(tool, at)
                for index, inner in enumerate(fields.read_objects(tool, "tools", at)):
                    within = f"{at}.tools[{index}]"
                    self._add_named(inner, fields.read_text(inner, "type", within), within, namespace)
            case _ if kind in CLIENT_TOOLS and is_client_executed(tool):
                self._offer(_client_tool(tool, kind))
            case _:
                self.dropped.append(f"{at}: {kind[:_MAX_QUOTED]} is not supported")

    def _add_named(self, tool: JsonObject, kind: str, at: str, namespace: str | None) -> None:
        name = _name(tool, at)
        known = self._function_of.get((namespace, name))
        function = known or (self._flatten(namespace, name) if namespace else name)
        match kind:
            case "function":
                self._offer(_function_tool(tool, at, name, namespace, function))
            case "custom":
                self._offer(_custom_tool(tool, at, name, namespace, function))
            case _:
                self.dropped.append(f"{at}: {kind[:_MAX_QUOTED]} is not supported")

    def _flatten(self, namespace: str, name: str) -> str:
        function, number = flatten_name(namespace, name), 1
        while function in self._by_function:
            number += 1
            function = f"{flatten_name(namespace, name)[: _MAX_FLAT_NAME - 4]}_{number}"
        return function

    def _offer(self, tool: OfferedTool) -> None:
        if (known := self._by_function.get(tool.spec.name)) is not None:  # offered again by a later item
            if known.function == tool.function:
                return
            raise InvalidRequest("tools", f"two tools are named {tool.spec.name!r}")
        self.tools.append(tool)
        self._by_function[tool.spec.name] = tool
        self._function_of[tool.namespace, tool.name] = tool.spec.name


def flatten_name(namespace: str, name: str) -> str:
    """Return the function name of a tool in a namespace: the same in each request, and at most 64 characters long."""
    flat = f"{namespace.rstrip('_')}__{name}"
    if len(flat) <= _MAX_FLAT_NAME:
        return flat
    return f"{flat[: _MAX_FLAT_NAME - 9]}_{blake2b(flat.encode(), digest_size=4).hexdigest()}"


def _name(tool: JsonObject, at: str) -> str:
    name = fields.read_text(tool, "name", at)
    if len(name) > MAX_TOOL_NAME:
        raise InvalidRequest(f"{at}.name", f"expected at most {MAX_TOOL_NAME} characters, got {len(name)}")
    return name


def _description(tool: JsonObject) -> str:
    description = tool.get("description")
    return description if isinstance(description, str) else ""


def _function_tool(tool: JsonObject, at: str, name: str, namespace: str | None, function: str) -> OfferedTool:
    description, parameters = _description(tool), tool.get("parameters")
    schema: Schema
    if is_object(parameters) or isinstance(parameters, bool):
        schema = parameters
    elif parameters is None:
        schema = True
    else:
        fields.reject(f"{at}.parameters", "a JSON Schema", parameters)
    definition: dict[str, Json] = {
        "name": function,
        "description": description,
        "parameters": parameters if is_object(parameters) else _NO_PARAMETERS,
    }
    if isinstance(strict := tool.get("strict"), bool):
        definition["strict"] = strict
    return OfferedTool("function", ToolSpec(function, schema, description), name, namespace, definition)


def _custom_tool(tool: JsonObject, at: str, name: str, namespace: str | None, function: str) -> OfferedTool:
    grammar = _grammar(tool, at)
    described = "The whole input as text."
    if grammar is not None:  # the service shows a model the grammar, too: nothing else describes the format
        described = f"The whole input as text. It must match this {grammar.syntax} grammar:\n{grammar.definition}"
    schema: JsonObject = {
        "type": "object",
        "properties": {INPUT: {"type": "string", "description": described}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    spec = ToolSpec(function, schema, _description(tool), grammar)
    definition: JsonObject = {"name": function, "description": _description(tool), "parameters": schema}
    return OfferedTool("custom", spec, name, namespace, definition)


def _grammar(tool: JsonObject, at: str) -> ToolGrammar | None:
    match tool.get("format"):
        case None | {"type": "text"}:
            return None
        case {"type": "grammar", "syntax": "lark" | "regex" as syntax, "definition": str(definition)}:
            return ToolGrammar(syntax, definition, INPUT)
        case {"type": "grammar", "grammar": {"syntax": "lark" | "regex" as syntax, "definition": str(definition)}}:
            return ToolGrammar(syntax, definition, INPUT)  # as chat completions write it
        case _:
            raise InvalidRequest(
                f"{at}.format", "expected {type: text} or {type: grammar, syntax: lark or regex, definition}"
            )


def _client_tool(tool: JsonObject, kind: str) -> OfferedTool:
    known = CLIENT_TOOLS[kind]
    parameters = own if is_object(own := tool.get("parameters")) else known.parameters
    description = _description(tool) or known.description
    definition: JsonObject = {"name": kind, "description": description, "parameters": parameters}
    return OfferedTool("client", ToolSpec(kind, parameters, description), kind, None, definition)
