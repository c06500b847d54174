"""Converts input items to chat messages."""

from __future__ import annotations

import json
from collections.abc import Iterable

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_object, write
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.responses.client_tools import BY_CALL_TYPE
from forge_proxy.wire.clients.responses.content import decode_content, decode_text
from forge_proxy.wire.clients.responses.conversation import ConversationBuilder
from forge_proxy.wire.clients.responses.reasoning import decode_reasoning
from forge_proxy.wire.clients.responses.tools import INPUT, OfferedTools

_ROLES = ("user", "system", "developer", "assistant")
_MAX_QUOTED = 40
TOOL_ITEMS = ("additional_tools", "tool_search_output")
"""Items that offer further tools."""


def list_input_items(value: Json) -> list[JsonObject]:
    """Return `input` as items: a string is one message of the user. Raises `InvalidRequest`."""
    if value is None:
        return []
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return fields.check_objects(value, "input")


def read_item_type(item: JsonObject) -> str:
    """Return the type of an item; messages may omit it."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if "role" in item:
        return "message"
    return "item_reference" if set(item) == {"id"} else ""


class InputDecoder:
    """Decodes the items of one request into a conversation."""

    def __init__(self, tools: OfferedTools) -> None:
        self.conversation = ConversationBuilder()
        self.dropped: list[str] = []
        self._tools = tools

    def add(self, items: Iterable[JsonObject], at: str) -> None:
        """Decode items. What no model server can use is dropped. Raises `InvalidRequest`."""
        for index, item in enumerate(items):
            self._add(item, f"{at}[{index}]")

    def _add(self, item: JsonObject, at: str) -> None:
        kind = read_item_type(item)
        match kind:
            case "message":
                self._add_message(item, at)
            case "reasoning":
                self._add_reasoning(item, at)
            case "function_call" | "custom_tool_call":
                self._add_call(item, kind, at)
            case _ if kind in BY_CALL_TYPE:
                arguments = BY_CALL_TYPE[kind].to_arguments(item)
                self.conversation.add_call(_call_id(item), BY_CALL_TYPE[kind].type, write(arguments))
            case "item_reference":
                raise InvalidRequest(f"{at}.id", "no stored item has this id")
            case "additional_tools":
                pass  # the tools are already offered
            case "tool_search_output":
                names = [str(tool.get("name")) for tool in fields.read_objects(item, "tools", at)]
                self.conversation.add_result(_call_id(item), write({"tools": [*names]}))
            case "":
                raise InvalidRequest(f"{at}.type", "required, but missing")
            case _ if kind.endswith("_output"):
                self._add_output(item, kind, at)
            case _:
                self.dropped.append(f"{at}: {kind[:_MAX_QUOTED]} is not supported")

    def _add_message(self, item: JsonObject, at: str) -> None:
        role = fields.read_text(item, "role", at)
        if role not in _ROLES:
            raise InvalidRequest(f"{at}.role", f"expected one of {', '.join(_ROLES)}; got {role[:_MAX_QUOTED]!r}")
        content = item.get("content")
        if role == "assistant":
            self.conversation.add_text(decode_text(content, f"{at}.content"))
        else:
            self.conversation.add_message(role, decode_content(content, f"{at}.content"))

    def _add_reasoning(self, item: JsonObject, at: str) -> None:
        encrypted = item.get("encrypted_content")
        if isinstance(encrypted, str) and encrypted:
            text = decode_reasoning(encrypted)
            if text is None:
                self.dropped.append(f"{at}.encrypted_content: another service made it")
                return
        else:
            parts = item.get("content") or item.get("summary") or []
            text = decode_text(parts, f"{at}.content")
        if text:
            self.conversation.add_reasoning(text)

    def _add_call(self, item: JsonObject, kind: str, at: str) -> None:
        name = fields.read_text(item, "name", at)
        namespace = fields.read_optional_text(item, "namespace")
        if kind == "custom_tool_call":
            arguments = write({INPUT: _string(item, "input", at)})
        else:
            arguments = _string(item, "arguments", at)
        self.conversation.add_call(_call_id(item), self._tools.function_name(name, namespace), arguments)

    def _add_output(self, item: JsonObject, kind: str, at: str) -> None:
        output = item.get("output")
        match kind:
            case "function_call_output" | "custom_tool_call_output":
                content = decode_content(output, f"{at}.output")
            case "local_shell_call_output" | "shell_call_output":
                content = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            case "apply_patch_call_output":
                content = f"{item.get('status')}: {output}" if isinstance(output, str) else str(item.get("status"))
            case _:
                self.dropped.append(f"{at}: {kind[:_MAX_QUOTED]} is not supported")
                return
        self.conversation.add_result(_call_id(item), content)


def add_item_tools(tools: OfferedTools, items: Iterable[JsonObject], at: str) -> None:
    """Offer the tools that items of the conversation add."""
    for index, item in enumerate(items):
        if item.get("type") in TOOL_ITEMS:
            within = f"{at}[{index}]"
            tools.add(fields.read_objects(item, "tools", within), f"{within}.tools")


def _call_id(item: JsonObject) -> str:
    for key in ("call_id", "id"):  # an output of local_shell names the call in its own id
        value = item.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def _string(item: JsonObject, key: str, at: str) -> str:
    value = item.get(key)
    if is_object(value):  # some clients send parsed arguments
        return write(value)
    if not isinstance(value, str):
        fields.reject(f"{at}.{key}", "a string", value)
    return value
