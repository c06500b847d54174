"""A call while the model writes it: an item of the type that the client's tool has."""

from __future__ import annotations

from io import StringIO
from typing import Literal

import orjson

from forge_proxy.core.jsontypes import Json, is_nested_too_deeply, is_object, read_object
from forge_proxy.wire.clients.responses.client_tools import CLIENT_TOOLS
from forge_proxy.wire.clients.responses.output_items import ItemEvent, ItemStatus, OutputItem
from forge_proxy.wire.clients.responses.tools import INPUT, OfferedTool


class CallItem(OutputItem):
    """A call. It is opened with its first arguments: by then the name is complete."""

    def __init__(self, item_id: str, index: int, call_id: str) -> None:
        super().__init__(item_id, index)
        self.call_id = call_id
        self._name = ""
        self._tool: OfferedTool | None = None
        self._arguments = StringIO()

    def open(self, function: str, tool: OfferedTool | None) -> list[ItemEvent]:
        """Begin the item: the model calls `function`, the client's `tool`.

        Calls of tools of kind `client` have no event here; they are sent when they are complete.
        """
        self._name, self._tool = function, tool
        return [] if self._kind == "client" else [self.encode_added(self.item("in_progress"))]

    def add(self, arguments: str) -> list[ItemEvent]:
        """Add arguments. Those of other tools than functions are only sent when they can be decoded."""
        self._arguments.write(arguments)
        if self._kind != "function" or not arguments:
            return []
        return [self.event("function_call_arguments.delta", delta=arguments)]

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are complete JSON."""
        return read_object(self._arguments.getvalue()) is not None

    def close(self, status: ItemStatus) -> list[ItemEvent]:
        """Return the events that end the item."""
        arguments = self._arguments.getvalue()
        match self._kind:
            case "function":
                name = self._tool.name if self._tool else self._name
                ends = [self.event("function_call_arguments.done", arguments=arguments, name=name)]
            case "custom":
                text = _input_of(arguments)
                ends = [self.event("custom_tool_call_input.delta", delta=text)] if text else []
                ends.append(self.event("custom_tool_call_input.done", input=text))
            case _:
                ends = [self.encode_added(self.item("in_progress"))]
        return [*ends, self.encode_done(status)]

    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item, of the type that the client's tool has."""
        head: dict[str, Json] = {"id": self.id, "status": status, "call_id": self.call_id}
        tool, arguments = self._tool, self._arguments.getvalue()
        named: dict[str, Json] = {"name": tool.name if tool else self._name}
        if tool is not None and tool.namespace is not None:
            named["namespace"] = tool.namespace
        if self._kind == "client" and tool is not None:
            known = CLIENT_TOOLS[tool.name]
            return {**head, "type": known.call_type, **known.to_fields(_read_arguments(arguments))}
        if self._kind == "custom":
            return {**head, "type": "custom_tool_call", **named, "input": _input_of(arguments)}
        return {**head, "type": "function_call", **named, "arguments": arguments}

    @property
    def _kind(self) -> Literal["function", "custom", "client"]:
        return self._tool.kind if self._tool else "function"


def _read_arguments(text: str) -> dict[str, Json]:
    """Return arguments that an item contains as an object; none if they cannot be serialized again."""
    if is_nested_too_deeply(text):
        return {}
    try:
        value: Json = orjson.loads(text)  # an integer of more than 64 bits becomes a float, which can be serialized
    except orjson.JSONDecodeError:
        return {}
    return value if is_object(value) else {}


def _input_of(arguments: str) -> str:
    """Return the text of a custom tool's call; the arguments themselves if the model did not write the object."""
    text = (read_object(arguments) or {}).get(INPUT)
    return text if isinstance(text, str) else arguments
