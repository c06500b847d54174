"""Assembles chat messages from items: reasoning, text and calls of one turn become one assistant message."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, JsonObject


class ConversationBuilder:
    """Collects the items of a conversation in order."""

    def __init__(self) -> None:
        self._messages: list[JsonObject] = []
        self._reasoning: list[str] = []
        self._texts: list[str] = []
        self._calls: list[Json] = []

    def add_message(self, role: str, content: Json) -> None:
        """Add a message that the model did not write."""
        self._end_turn()
        self._messages.append({"role": role, "content": content})

    def add_result(self, call_id: str, content: Json) -> None:
        """Add the result of a call."""
        self._end_turn()
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def add_reasoning(self, text: str) -> None:
        """Add reasoning, which begins a turn of the model unless calls of the current one are still listed."""
        if self._texts and not self._calls:
            self._end_turn()
        self._reasoning.append(text)

    def add_text(self, text: str) -> None:
        """Add what the model said."""
        if self._texts and not self._calls:
            self._end_turn()
        self._texts.append(text)

    def add_call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a call of the model."""
        function: JsonObject = {"name": name, "arguments": arguments}
        self._calls.append({"id": call_id, "type": "function", "function": function})

    def messages(self) -> list[JsonObject]:
        """Return the messages."""
        self._end_turn()
        return self._messages

    def _end_turn(self) -> None:
        if not (self._reasoning or self._texts or self._calls):
            return
        message: dict[str, Json] = {"role": "assistant", "content": "\n\n".join(self._texts)}
        if self._calls:
            message["tool_calls"] = self._calls
            message["content"] = message["content"] or None
        if self._reasoning:
            message["reasoning_content"] = "\n".join(self._reasoning)
        self._messages.append(message)
        self._reasoning, self._texts, self._calls = [], [], []
