"""Messages and reasoning while the model writes them, with the events of each. Events have no sequence numbers yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import StringIO
from typing import Literal, TypeAlias

import orjson

from forge_proxy.core.jsontypes import Json, is_list
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.wire.clients.responses.reasoning import encode_reasoning

ItemEvent: TypeAlias = dict[str, Json]
ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]
PartType: TypeAlias = Literal["output_text", "refusal"]


class OutputItem(ABC):
    """An item at `index` of the output. Its events come from `open`, from additions, and from `close`."""

    def __init__(self, item_id: str, index: int) -> None:
        self.id = item_id
        self.index = index

    @abstractmethod
    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item as written so far."""

    @abstractmethod
    def close(self, status: ItemStatus) -> list[ItemEvent]:
        """Return the events that end the item."""

    def event(self, kind: str, **fields: Json) -> ItemEvent:
        """Return an event about a part of the item."""
        return {"type": f"response.{kind}", "output_index": self.index, "item_id": self.id, **fields}

    def encode_added(self, item: Json) -> ItemEvent:
        """Return the event that begins the item."""
        return {"type": "response.output_item.added", "output_index": self.index, "item": item}

    def encode_done(self, status: ItemStatus) -> ItemEvent:
        """Return the event that ends the item."""
        return {"type": "response.output_item.done", "output_index": self.index, "item": self.item(status)}


class MessageItem(OutputItem):
    """A message of the model: parts of text or refusals."""

    def __init__(self, item_id: str, index: int) -> None:
        super().__init__(item_id, index)
        self._parts: list[Json] = []
        self._type: PartType = "output_text"
        self._text: StringIO | None = None
        self._logprobs: list[Json] = []

    def open(self) -> list[ItemEvent]:
        """Return the event that begins the item."""
        return [self.encode_added(self.item("in_progress"))]

    def add(self, kind: PartType, text: str, logprobs: LogProbs | None = None) -> list[ItemEvent]:
        """Add text to the current part, or begin one of another type."""
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
        return [*self._end_part(), self.encode_done(status)]

    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item with its complete parts."""
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": [*self._parts]}

    def _part_event(self, kind: str, **fields: Json) -> ItemEvent:
        return self.event(kind, content_index=len(self._parts), **fields)

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
        item: dict[str, Json] = {"id": self.id, "type": "reasoning", "status": "in_progress", "summary": []}
        return [self.encode_added(item), self.event(f"{self._part_kind}.added", **self._place, part=self._part(""))]

    def add(self, text: str) -> list[ItemEvent]:
        """Add reasoning."""
        self._text.write(text)
        return [self.event(f"{self._kind}.delta", **self._place, delta=text)]

    def close(self, status: ItemStatus) -> list[ItemEvent]:
        """Return the events that end the item."""
        text = self._text.getvalue()
        return [
            self.event(f"{self._kind}.done", **self._place, text=text),
            self.event(f"{self._part_kind}.done", **self._place, part=self._part(text)),
            self.encode_done(status),
        ]

    def item(self, status: ItemStatus) -> dict[str, Json]:
        """Return the item."""
        text = self._text.getvalue()
        part = self._part(text)
        item: dict[str, Json] = {
            "id": self.id,
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
