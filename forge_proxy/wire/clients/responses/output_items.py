"""The items of a response while the model writes them, and the events of each. Events have no sequence numbers yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import StringIO
from typing import Literal, TypeAlias

import orjson

from forge_proxy.core.jsontypes import Json, is_list, read_object
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.wire.clients.responses.client_tools import CLIENT_TOOLS
from forge_proxy.wire.clients.responses.reasoning import encode_reasoning
from forge_proxy.wire.clients.responses.tools import INPUT, OfferedTool

ItemEvent: TypeAlias = dict[str, Json]
ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]
PartType: TypeAlias = Literal["output_text", "refusal"]


class OutputItem(ABC):
    """An item at `index` of the output. Its events come from `open`, from additions, and from `close`."""

    def __init__(self, item_id: str, index: int) -> None:
        self._id = item_id
        self.index = index

    @abstractmethod
    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item as written so far."""

    @abstractmethod
    def close(self, status: ItemStatus) -> list[ItemEvent]:
        """Return the events that end the item."""

    def _event(self, kind: str, **fields: Json) -> ItemEvent:
        return {"type": f"response.{kind}", "output_index": self.index, "item_id": self._id, **fields}

    def _added(self, item: Json) -> ItemEvent:
        return {"type": "response.output_item.added", "output_index": self.index, "item": item}

    def _done(self, status: ItemStatus) -> ItemEvent:
        return {"type": "response.output_item.done", "output_index": self.index, "item": self.item(status)}


class MessageItem(OutputItem):
    """What the model says: parts of text or refusals."""

    def __init__(self, item_id: str, index: int) -> None:
        super().__init__(item_id, index)
        self._parts: list[Json] = []
        self._type: PartType = "output_text"
        self._text: StringIO | None = None
        self._logprobs: list[Json] = []

    def open(self) -> list[ItemEvent]:
        """Return the event that begins the item."""
        return [self._added(self.item("in_progress"))]

    def add(self, kind: PartType, text: str, logprobs: LogProbs | None = None) -> list[ItemEvent]:
        """Add text to the present part, or begin one of another type."""
        events: list[ItemEvent] = []
        if self._text is None or kind != self._type:
            events += self._end_part()
            self._type, self._text = kind, StringIO()
            events.append(self._part_event("content_part.added", part=_part(kind, "", [])))
        self._text.write(text)
        if kind == "refusal":
            return [*events, self._part_event("refusal.delta", delta=text)]
        tokens = _tokens(logprobs)
        self._logprobs += tokens
        return [*events, self._part_event("output_text.delta", delta=text, logprobs=tokens)]

    def close(self, status: ItemStatus) -> list[ItemEvent]:
        """Return the events that end the item."""
        return [*self._end_part(), self._done(status)]

    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item with its complete parts."""
        return {"id": self._id, "type": "message", "status": status, "role": "assistant", "content": [*self._parts]}

    def _part_event(self, kind: str, **fields: Json) -> ItemEvent:
        return self._event(kind, content_index=len(self._parts), **fields)

    def _end_part(self) -> list[ItemEvent]:
        if self._text is None:
            return []
        text, self._text = self._text.getvalue(), None
        tokens, self._logprobs = self._logprobs, []
        part = _part(self._type, text, tokens)
        if self._type == "refusal":
            done = self._part_event("refusal.done", refusal=text)
        else:
            done = self._part_event("output_text.done", text=text, logprobs=tokens)
        events = [done, self._part_event("content_part.done", part=part)]
        self._parts.append(part)
        return events


class ReasoningItem(OutputItem):
    """The model's reasoning: as a summary if the client requested one, otherwise as content."""

    def __init__(self, item_id: str, index: int, *, is_summary: bool, is_encrypted: bool) -> None:
        super().__init__(item_id, index)
        self._is_summary = is_summary
        self._is_encrypted = is_encrypted
        self._place: dict[str, Json] = {"summary_index": 0} if is_summary else {"content_index": 0}
        self._kind = "reasoning_summary_text" if is_summary else "reasoning_text"
        self._part_kind = "reasoning_summary_part" if is_summary else "content_part"
        self._text = StringIO()

    def open(self) -> list[ItemEvent]:
        """Return the events that begin the item."""
        item: dict[str, Json] = {"id": self._id, "type": "reasoning", "status": "in_progress", "summary": []}
        return [self._added(item), self._event(f"{self._part_kind}.added", **self._place, part=self._part(""))]

    def add(self, text: str) -> list[ItemEvent]:
        """Add reasoning."""
        self._text.write(text)
        return [self._event(f"{self._kind}.delta", **self._place, delta=text)]

    def close(self, status: ItemStatus) -> list[ItemEvent]:
        """Return the events that end the item."""
        text = self._text.getvalue()
        return [
            self._event(f"{self._kind}.done", **self._place, text=text),
            self._event(f"{self._part_kind}.done", **self._place, part=self._part(text)),
            self._done(status),
        ]

    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item."""
        text = self._text.getvalue()
        part = self._part(text)
        item: dict[str, Json] = {
            "id": self._id,
            "type": "reasoning",
            "status": status,
            "summary": [part] if self._is_summary else [],
        }
        if not self._is_summary:
            item["content"] = [part]
        if self._is_encrypted:
            item["encrypted_content"] = encode_reasoning(text)
        return item

    def _part(self, text: str) -> Json:
        return {"type": "summary_text" if self._is_summary else "reasoning_text", "text": text}


class CallItem(OutputItem):
    """A call. It is opened with its first arguments: by then the name is complete."""

    def __init__(self, item_id: str, index: int, call_id: str) -> None:
        super().__init__(item_id, index)
        self.call_id = call_id
        self._name = ""
        self._tool: OfferedTool | None = None
        self._arguments = StringIO()

    def open(self, function: str, tool: OfferedTool | None) -> list[ItemEvent]:
        """Begin the item: the model calls `function`, the client's `tool`. Client tools begin at their end."""
        self._name, self._tool = function, tool
        return [] if self._kind == "client" else [self._added(self.item("in_progress"))]

    def add(self, arguments: str) -> list[ItemEvent]:
        """Add arguments. Those of other tools than functions are only sent when they can be decoded."""
        self._arguments.write(arguments)
        if self._kind != "function" or not arguments:
            return []
        return [self._event("function_call_arguments.delta", delta=arguments)]

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
                ends = [self._event("function_call_arguments.done", arguments=arguments, name=name)]
            case "custom":
                text = _input_of(arguments)
                ends = [self._event("custom_tool_call_input.delta", delta=text)] if text else []
                ends.append(self._event("custom_tool_call_input.done", input=text))
            case _:
                ends = [self._added(self.item("in_progress"))]
        return [*ends, self._done(status)]

    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item, of the type that the client's tool has."""
        head: dict[str, Json] = {"id": self._id, "status": status, "call_id": self.call_id}
        tool, arguments = self._tool, self._arguments.getvalue()
        named: dict[str, Json] = {"name": tool.name if tool else self._name}
        if tool is not None and tool.namespace is not None:
            named["namespace"] = tool.namespace
        if self._kind == "client" and tool is not None:
            known = CLIENT_TOOLS[tool.name]
            return {**head, "type": known.call_type, **known.to_fields(read_object(arguments) or {})}
        if self._kind == "custom":
            return {**head, "type": "custom_tool_call", **named, "input": _input_of(arguments)}
        return {**head, "type": "function_call", **named, "arguments": arguments}

    @property
    def _kind(self) -> Literal["function", "custom", "client"]:
        return self._tool.kind if self._tool else "function"


def _input_of(arguments: str) -> str:
    """Return the text of a custom tool's call; the arguments themselves if the model did not write the object."""
    text = (read_object(arguments) or {}).get(INPUT)
    return text if isinstance(text, str) else arguments


def _part(kind: PartType, text: str, logprobs: list[Json]) -> Json:
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def _tokens(logprobs: LogProbs | None) -> list[Json]:
    items = logprobs.lists.get("content") if logprobs else None
    if not items:
        return []
    tokens: Json = orjson.loads(b"".join((b"[", items, b"]")))
    return tokens if is_list(tokens) else []
