"""Turns the deltas of a response into content blocks, which are opened and closed strictly one after another.

Calls that the model server interleaves are sent one after another: the deltas of a call wait until the call before it
is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.stream import SIGNED_REASONING, CallDelta, Delta
from forge_proxy.wire.clients.messages.signatures import embed_blocks, embed_reasoning, sign_reasoning


class BlockWriter:
    """Writes the events of the blocks of one message.

    A call without an id gets one that begins with `call_id`. Without `shows_reasoning`, thinking blocks are empty, and
    their signatures contain the reasoning.
    """

    def __init__(self, call_id: str, *, shows_reasoning: bool) -> None:
        self._call_id = call_id
        self._shows_reasoning = shows_reasoning
        self._index = -1
        self._open: _OpenBlock | None = None
        self._calls: dict[int, _PendingCall] = {}
        """The calls that are not written yet, and the one that is being written."""
        self._seen: set[int] = set()
        self._is_interleaved = False
        self._late: list[Delta] = []
        """Text and reasoning that came between the pieces of interleaved calls; they follow the calls."""
        self.size = 0
        """Characters of all blocks, for an estimate of their tokens."""

    @property
    def has_calls(self) -> bool:
        """Whether the message contains a call."""
        return bool(self._seen)

    def add(self, delta: Delta) -> list[JsonObject]:
        """Return the events of a delta."""
        events: list[JsonObject] = []
        refusal = delta.extra.get("refusal")
        text = (delta.text or "") + (refusal if isinstance(refusal, str) else "")
        signed = delta.extra.get(SIGNED_REASONING)
        if delta.reasoning or text or signed:
            if self._calls and not self._finish_call(events):
                self._late.append(replace(delta, calls=()))
            else:
                self._write(events, delta.reasoning or "", signed, text)
        for call in delta.calls:
            self._add_call(events, call)
        return events

    def finish(self) -> list[JsonObject]:
        """Return the events that complete all blocks."""
        events: list[JsonObject] = []
        for call in self._calls.values():
            self._write_call(events, call)
        self._close(events)
        self._calls = {}
        late, self._late = self._late, []
        for delta in late:
            events += self.add(delta)
        self._close(events)
        return events

    def _write(self, events: list[JsonObject], reasoning: str, signed: Json, text: str) -> None:
        if reasoning:
            self._reason(events, reasoning)
        if is_list(signed) and (blocks := [block for block in signed if is_object(block)]):
            self._sign(events, blocks)
        if text:
            if self._open is None or self._open.kind != "text":
                self._begin(events, "text", {"type": "text", "text": ""})
            self._send(events, {"type": "text_delta", "text": text}, len(text))

    def _reason(self, events: list[JsonObject], reasoning: str) -> None:
        if self._open is None or self._open.kind != "thinking":
            self._begin(events, "thinking", {"type": "thinking", "thinking": "", "signature": ""})
        assert self._open is not None  # noqa: S101
        self._open.reasoning.write(reasoning)
        if self._shows_reasoning:
            self._send(events, {"type": "thinking_delta", "thinking": reasoning}, len(reasoning))

    def _sign(self, events: list[JsonObject], blocks: Sequence[JsonObject]) -> None:
        """Write the signature of Anthropic's reasoning. Blocks that cannot be sent as they are go into a signature."""
        if all(block.get("type") == "redacted_thinking" for block in blocks):
            for block in blocks:
                redacted: JsonObject = {"type": "redacted_thinking", "data": block.get("data")}
                self._begin(events, "redacted_thinking", redacted)
                self._close(events)
            return
        sent = ""
        if self._open is not None and self._open.kind == "thinking":
            sent = self._open.reasoning.getvalue() if self._shows_reasoning else ""
        else:
            self._begin(events, "thinking", {"type": "thinking", "thinking": "", "signature": ""})
        first = blocks[0]
        signature = first.get("signature")
        is_same = len(blocks) == 1 and first.get("thinking") == sent and isinstance(signature, str)
        assert self._open is not None  # noqa: S101
        self._open.signature = str(signature) if is_same else embed_blocks([_without_index(one) for one in blocks])
        self._close(events)

    def _add_call(self, events: list[JsonObject], piece: CallDelta) -> None:
        call = self._calls.get(piece.index)
        if call is None:
            if piece.index in self._seen:  # complete; what follows a complete JSON object is white space
                return
            if self._calls:
                self._finish_call(events)
            self._seen.add(piece.index)
            call = self._calls[piece.index] = _PendingCall(piece.index)
        call.add(piece)
        if next(iter(self._calls)) == piece.index and call.is_named:
            self._write_call(events, call)

    def _finish_call(self, events: list[JsonObject]) -> bool:
        """Close the call that is being written if it is complete. Returns whether no call is being written then."""
        if self._is_interleaved or len(self._calls) != 1:
            return False
        (call,) = self._calls.values()
        if not call.is_complete:
            self._is_interleaved = True
            return False
        self._write_call(events, call)
        self._close(events)
        self._calls = {}
        return True

    def _write_call(self, events: list[JsonObject], call: _PendingCall) -> None:
        if self._open is None or self._open.call is not call:
            identity = call.id or f"{self._call_id}_{call.index}"
            block: JsonObject = {"type": "tool_use", "id": identity, "name": call.name, "input": {}}
            self._begin(events, "tool_use", block)
            assert self._open is not None  # noqa: S101
            self._open.call = call
            self.size += len(call.name)
        if piece := call.take():
            self._send(events, {"type": "input_json_delta", "partial_json": piece}, len(piece))

    def _begin(self, events: list[JsonObject], kind: str, block: JsonObject) -> None:
        self._close(events)
        self._index += 1
        self._open = _OpenBlock(kind)
        events.append({"type": "content_block_start", "index": self._index, "content_block": block})

    def _send(self, events: list[JsonObject], delta: JsonObject, size: int) -> None:
        self.size += size
        events.append({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self, events: list[JsonObject]) -> None:
        block, self._open = self._open, None
        if block is None:
            return
        if block.kind == "thinking":
            signature = block.signature or self._sign_own(block.reasoning.getvalue())
            self._open = block
            self._send(events, {"type": "signature_delta", "signature": signature}, 0)
            self._open = None
        events.append({"type": "content_block_stop", "index": self._index})

    def _sign_own(self, reasoning: str) -> str:
        return sign_reasoning(reasoning) if self._shows_reasoning else embed_reasoning(reasoning)


class _OpenBlock:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.reasoning = StringIO()
        self.signature = ""
        self.call: _PendingCall | None = None


class _PendingCall:
    """A call of which not everything is written yet. Its name is complete when its arguments begin."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self._arguments = StringIO()
        self._sent = 0

    @property
    def is_named(self) -> bool:
        return bool(self._arguments.tell())

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a JSON object."""
        try:
            return is_object(orjson.loads(self._arguments.getvalue()))
        except orjson.JSONDecodeError:
            return False

    def add(self, piece: CallDelta) -> None:
        self.id = self.id or piece.id
        if piece.name != self.name:  # some servers repeat the name or split it
            self.name += piece.name
        self._arguments.write(piece.arguments)

    def take(self) -> str:
        """Return the arguments that are not written yet."""
        self._arguments.seek(self._sent)
        piece = self._arguments.read()
        self._sent = self._arguments.tell()
        return piece


def _without_index(block: JsonObject) -> JsonObject:
    return {key: value for key, value in block.items() if key != "index"}
