"""Converts a message history from OpenAI's format to Anthropic's: `system` separate, alternating roles, a result for
each call.

Each turn encodes the same history in the same way. The order stays, except that results come first in the message after
their calls, as the server requires. Histories that the server would reject are repaired: a call without a result gets
an error result, a result without a call becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from forge_proxy.core.dialect import Reasoning
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, read_object
from forge_proxy.core.stream import SIGNED_REASONING
from forge_proxy.wire.backends.anthropic.blocks import CACHE, Block, encode_blocks, text_block
from forge_proxy.wire.backends.anthropic.tools import ToolNames
from forge_proxy.wire.message_repair import may_be_too_deep, to_arguments_object

_NOT_RUN = "[NotRun] This call was not run."
_ORPHAN = "[The result of a call that is not in this conversation]"
_BEGIN = "Go on."
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_SYSTEM = ("system", "developer")


@dataclass
class _Message:
    role: str
    blocks: list[Block] = field(default_factory=list[Block])


@dataclass(frozen=True, slots=True)
class AnthropicConversation:
    """A message history in Anthropic's format. `called` has the names of the tools called in it."""

    system: list[Block]
    messages: list[Json]
    called: list[str]
    lacks_reasoning: bool
    """Whether the latest response has calls but no reasoning, which the server rejects with a thinking budget."""


def encode_history(messages: Sequence[Json], names: ToolNames, reasoning: Reasoning) -> AnthropicConversation:
    """Return the history in Anthropic's format. Raises `InvalidRequest` for content without an equivalent."""
    encoder = _HistoryEncoder(names, keeps_reasoning=reasoning != "none")
    for place, message in enumerate(messages):
        if is_object(message):
            encoder.add(message, f"messages[{place}]")
    return encoder.finish()


class _HistoryEncoder:
    """Encodes the messages one after the other."""

    def __init__(self, names: ToolNames, *, keeps_reasoning: bool) -> None:
        self._names = names
        self._keeps_reasoning = keeps_reasoning
        self._system: list[Block] = []
        self._out: list[_Message] = []
        self._called: list[str] = []
        self._ids: dict[str, str] = {}
        """The sent id of each of the client's call ids."""
        self._open: list[str] = []
        """The sent ids of the latest response's calls that have no result yet."""

    def add(self, message: JsonObject, at: str) -> None:
        """Encode a message. `at` is its path."""
        role = message.get("role")
        content = encode_blocks(message.get("content"), f"{at}.content")
        if content and message.get(CACHE) is not None:
            content[-1].setdefault(CACHE, message[CACHE])
        if role in _SYSTEM and not self._out:
            self._system += content
        elif role == "assistant":
            self._answer(message, content)
        elif role == "tool":
            self._result(message, content)
        else:  # also a later system message: moved to the beginning, it would change the cached prefix
            self._append("user", content)

    def finish(self) -> AnthropicConversation:
        """Complete open calls and return the history."""
        self._close_calls()
        out = [message for message in self._out if message.blocks]
        if not out:  # only system messages: they become the user message
            return AnthropicConversation(
                [], [_encode(_Message("user", self._system or [text_block(_BEGIN)]))], [], False
            )
        if out[0].role == "assistant":
            out.insert(0, _Message("user", [text_block(_BEGIN)]))
        if out[-1].role == "assistant" and out[-1].blocks[-1].get("type") == "text":
            last = out[-1].blocks[-1]
            last["text"] = str(last["text"]).rstrip()  # the server rejects a prefill that ends in white space
        latest = next((message.blocks for message in reversed(out) if message.role == "assistant"), list[Block]())
        thinks = any(block.get("type") in ("thinking", "redacted_thinking") for block in latest)
        loose = not thinks and any(block.get("type") == "tool_use" for block in latest)
        return AnthropicConversation(self._system, [_encode(message) for message in out], self._called, loose)

    def _answer(self, message: JsonObject, content: list[Block]) -> None:
        reasoning = message.get(SIGNED_REASONING)
        kept = _select_signed(reasoning) if self._keeps_reasoning else []
        calls = message.get("tool_calls")
        uses = [self._use(call) for call in calls if is_object(call)] if is_list(calls) else []
        self._append("assistant", [*kept, *content, *uses])
        self._open += [str(use["id"]) for use in uses]

    def _use(self, call: JsonObject) -> Block:
        function = call.get("function")
        fields = function if is_object(function) else {}
        name, arguments, identity = fields.get("name"), fields.get("arguments"), call.get("id")
        name = self._names.encode(name if isinstance(name, str) else "")
        self._called.append(name)
        use: Block = {"type": "tool_use", "id": self._new_id(identity if isinstance(identity, str) else "")}
        read = read_object(arguments) if isinstance(arguments, str) else None
        if read is not None and isinstance(arguments, str) and may_be_too_deep(arguments):
            read = to_arguments_object(arguments)
        use |= {"name": name, "input": read or {}}
        return {**use, CACHE: call[CACHE]} if call.get(CACHE) is not None else use

    def _result(self, message: JsonObject, content: list[Block]) -> None:
        identity = message.get("tool_call_id")
        use = self._ids.get(identity) if isinstance(identity, str) else None
        if use is None or use not in self._open:
            self._append("user", [text_block(_ORPHAN), *content] if content else [])
            return
        self._open.remove(use)
        result: Block = {"type": "tool_result", "tool_use_id": use}
        if content and (mark := content[-1].pop(CACHE, None)) is not None:
            result[CACHE] = mark
        only_text = len(content) == 1 and content[0]["type"] == "text"
        result["content"] = content[0]["text"] if only_text else list(content)
        self._append("user", [result])

    def _new_id(self, identity: str) -> str:
        """Return a valid id to send for a call, different from those of earlier calls."""
        stem = _FOREIGN.sub("_", identity) or "call"
        new_id, number = stem, 1
        while new_id in self._ids.values():
            number += 1
            new_id = f"{stem}_{number}"
        self._ids[identity] = new_id
        return new_id

    def _append(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if role == "assistant" and self._out and self._out[-1].role == "user":
            self._close_calls()
        if not self._out or self._out[-1].role != role:
            self._out.append(_Message(role))
        if blocks[0]["type"] == "tool_result":  # before the text between the call and the result
            content = self._out[-1].blocks
            place = sum(block["type"] == "tool_result" for block in content)
            content[place:place] = blocks
        else:
            self._out[-1].blocks += blocks

    def _close_calls(self) -> None:
        """Add an error result for each call without a result."""
        for use in self._open:
            missing: Block = {"type": "tool_result", "tool_use_id": use, "content": _NOT_RUN, "is_error": True}
            self._append("user", [missing])
        self._open = []


def _select_signed(reasoning: Json) -> list[Block]:
    """Return the thinking blocks that the server accepts: unchanged ones that are signed or encrypted."""
    blocks = [block for block in reasoning if is_object(block)] if is_list(reasoning) else []
    return [
        {key: value for key, value in block.items() if key != "index"}
        for block in blocks
        if (block.get("type") == "thinking" and block.get("signature"))
        or (block.get("type") == "redacted_thinking" and block.get("data"))
    ]


def _encode(message: _Message) -> Json:
    return {"role": message.role, "content": list(message.blocks)}
