"""Turns the deltas of a response into its items: each kind of delta opens, continues or ends one."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import CallDelta, Delta
from forge_proxy.wire.clients.responses.call_item import CallItem
from forge_proxy.wire.clients.responses.options import ENCRYPTED_REASONING, includes, requests_summary
from forge_proxy.wire.clients.responses.output_items import (
    ItemEvent,
    ItemStatus,
    MessageItem,
    OutputItem,
    ReasoningItem,
)
from forge_proxy.wire.clients.responses.tools import OfferedTools

_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(slots=True)
class _OpenCall:
    """A call that the model is writing. Its item is opened when it has a name and the first arguments."""

    item: CallItem
    name: str = ""
    early: str = ""
    """Arguments that came before the name."""
    is_open: bool = False


class OutputWriter:
    """The output of one response."""

    def __init__(self, body: JsonObject, tools: OfferedTools, suffix: str) -> None:
        """`suffix` ends the ids of all items, which are unique with it."""
        self._tools = tools
        self._suffix = suffix
        self._is_summary = requests_summary(body)
        self._is_encrypted = includes(body, ENCRYPTED_REASONING)
        self._item: MessageItem | ReasoningItem | None = None
        self._calls: dict[int, _OpenCall] = {}
        self._items: dict[int, JsonObject] = {}
        """Complete items by their index."""
        self._count = 0
        self.incomplete: str | None = None
        """Why the response is not complete."""

    @property
    def items(self) -> list[JsonObject]:
        """The complete items in order."""
        return [self._items[index] for index in sorted(self._items)]

    def add(self, delta: Delta) -> list[ItemEvent]:
        """Return the events of a delta."""
        events: list[ItemEvent] = []
        if delta.reasoning:
            events += self._add_reasoning(delta.reasoning)
        if delta.text:
            message, opening = self._message()
            events += [*opening, *message.add("output_text", delta.text, delta.logprobs)]
        if isinstance(refusal := delta.extra.get("refusal"), str) and refusal:
            message, opening = self._message()
            events += [*opening, *message.add("refusal", refusal)]
        for call in delta.calls:
            events += self._add_call(call)
        if delta.finish is not None:
            self.incomplete = _REASONS.get(delta.finish)
            events += self.close()
        return events

    def close(self) -> list[ItemEvent]:
        """Return the events that end the open items. The last one is incomplete if the response is."""
        events: list[ItemEvent] = []
        status: ItemStatus = "incomplete" if self.incomplete else "completed"
        if self._item is not None:
            events += self._end(self._item, status)
            self._item = None
        for index in list(self._calls):
            events += self._end_call(index, status)
        return events

    def _add_reasoning(self, text: str) -> list[ItemEvent]:
        if isinstance(self._item, ReasoningItem):
            return self._item.add(text)
        events = self._end_finished()
        index = self._next()
        self._item = item = ReasoningItem(
            f"rs_{self._suffix}{index:02x}", index, is_summary=self._is_summary, is_encrypted=self._is_encrypted
        )
        return [*events, *item.open(), *item.add(text)]

    def _message(self) -> tuple[MessageItem, list[ItemEvent]]:
        if isinstance(self._item, MessageItem):
            return self._item, []
        events = self._end_finished()
        index = self._next()
        self._item = item = MessageItem(f"msg_{self._suffix}{index:02x}", index)
        return item, [*events, *item.open()]

    def _add_call(self, delta: CallDelta) -> list[ItemEvent]:
        events: list[ItemEvent] = []
        call = self._calls.get(delta.index)
        if call is None:
            events = self._end_finished()
            index = self._next()
            call_id = delta.id or f"call_{self._suffix}{index:02x}"
            call = self._calls[delta.index] = _OpenCall(CallItem(f"fc_{self._suffix}{index:02x}", index, call_id))
        if delta.name and not call.is_open and delta.name != call.name:  # some servers repeat it
            call.name += delta.name
        call.early += delta.arguments
        if call.early and call.name:
            events += self._open(call)
        return events

    def _open(self, call: _OpenCall) -> list[ItemEvent]:
        """Open the item unless it is open, and add the arguments that it does not have."""
        arguments, call.early = call.early, ""
        opening = [] if call.is_open else call.item.open(call.name, self._tools.find(call.name))
        call.is_open = True
        return [*opening, *call.item.add(arguments)]

    def _end_finished(self) -> list[ItemEvent]:
        """End what is complete when another item begins; calls may be written at the same time."""
        events: list[ItemEvent] = []
        if self._item is not None:
            events += self._end(self._item, "completed")
            self._item = None
        for index in [index for index, call in self._calls.items() if call.item.is_complete]:
            events += self._end_call(index, "completed")
        return events

    def _end_call(self, index: int, status: ItemStatus) -> list[ItemEvent]:
        call = self._calls.pop(index)
        return [*self._open(call), *self._end(call.item, status)]

    def _end(self, item: OutputItem, status: ItemStatus) -> list[ItemEvent]:
        events = item.close(status)
        self._items[item.index] = item.item(status)
        return events

    def _next(self) -> int:
        self._count += 1
        return self._count - 1
