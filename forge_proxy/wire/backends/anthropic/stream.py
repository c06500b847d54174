"""What a Messages server answers to chunks: the events of a stream, or a whole message as one chunk."""

from __future__ import annotations

from io import StringIO

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_list, is_object
from forge_proxy.core.stream import SIGNED_REASONING, CallDelta, Chunk, Delta
from forge_proxy.wire.backends.anthropic.tools import ToolNames
from forge_proxy.wire.backends.responses import EventReader, UnreadableAnswer, joined, read_answer
from forge_proxy.wire.sse import BOM, MAX_RESPONSE

_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",  # of a server tool's long turn: what there is of it is the answer
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class MessageReader(EventReader):
    """Fed the bytes of a stream, or a whole message, gives out its chunks.

    `model` is put in place of the server's name for its model, `names` are those under which tools were offered.
    """

    def __init__(
        self,
        names: ToolNames,
        model: str | None = None,
        *,
        limit: int = MAX_RESPONSE,
        buffered: bool = False,
        declared_events: bool = True,
    ) -> None:
        super().__init__(limit=limit, buffered=buffered, declared_events=declared_events)
        self._names = names
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._usage: dict[str, Json] = {}

    def _read_whole(self, body: bytes) -> list[Chunk]:
        """A whole message, as the same chunk that its stream would have been."""
        message = read_answer(body.removeprefix(BOM))
        blocks = message.get("content")
        if message.get("type") != "message" or not is_list(blocks):
            raise UnreadableAnswer("not a message")
        events: list[JsonObject] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_delta", "delta": message, "usage": message.get("usage")})
        events.append({"type": "message_stop"})
        return [joined([chunk for event in events if (chunk := self._take(event)) is not None])]

    def _read(self, events: list[bytes]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for event in events:
            try:
                chunk = self._take(read_answer(event))
            except UnreadableAnswer as exc:
                self.fault = exc
                break
            if chunk is not None:
                chunks.append(chunk)
            if self.done:
                break
        return [joined(chunks)] if len(chunks) > 1 else chunks

    def _take(self, event: JsonObject) -> Chunk | None:
        """What one event adds; None for one that says nothing of the answer, such as `ping`."""
        match event:
            case {"type": "message_start", "message": {**message}}:
                self.begun = True
                self._count(message.get("usage"))
                head = {key: message[key] for key in ("id", "model") if isinstance(message.get(key), str)}
                if self._model is not None:
                    head["model"] = self._model
                return Chunk((Delta(extra={"role": "assistant"}),), head=head)
            case {"type": "content_block_start", "index": int(index), "content_block": {**block}}:
                return self._begin(index, block)
            case {"type": "content_block_delta", "index": int(index), "delta": {**delta}}:
                block = self._blocks.get(index)
                return _chunk(block.add(delta)) if block is not None else None
            case {"type": "content_block_stop", "index": int(index)}:
                block = self._blocks.pop(index, None)
                return _chunk(block.end(index)) if block is not None else None
            case {"type": "message_delta", "delta": {**delta}}:
                return self._finish(delta, event.get("usage"))
            case {"type": "message_stop"}:
                self.done = True
            case _:
                pass
        return None

    def _begin(self, index: int, said: JsonObject) -> Chunk | None:
        block = self._blocks[index] = _Block(said)
        if said.get("type") == "tool_use":
            name, identity = said.get("name"), said.get("id")
            begun = CallDelta(
                self._calls,
                identity if isinstance(identity, str) else "",
                self._names.back(name) if isinstance(name, str) else "",
            )
            block.call, self._calls = self._calls, self._calls + 1
            return _chunk(Delta(calls=(begun,)))
        return _chunk(block.add({**said, "type": "whole"}))

    def _finish(self, delta: JsonObject, usage: Json) -> Chunk | None:
        self._count(usage)
        reason = delta.get("stop_reason")
        if not isinstance(reason, str):
            return None
        self.finished = True
        details = delta.get("stop_details")
        why = details.get("explanation") if is_object(details) else None
        refusal: JsonObject = {"refusal": why} if reason == "refusal" and isinstance(why, str) else {}
        return Chunk((Delta(finish=_FINISHES.get(reason, "stop"), extra=refusal),), usage=_openai_usage(self._usage))

    def _count(self, usage: Json) -> None:
        if is_object(usage):  # each tells the sum so far, and leaves out what it does not know
            self._usage |= {key: value for key, value in usage.items() if value is not None}


class _Block:
    """One block of content while it comes. `call` is its place among the calls, where it is one."""

    def __init__(self, said: JsonObject) -> None:
        self._said = said
        self._thought = StringIO()
        self._has_arguments = False
        self._signature = ""
        self.call: int | None = None

    def add(self, delta: JsonObject) -> Delta | None:
        """What a delta adds to the answer. What the block began with comes as a delta of type `whole`."""
        match delta:
            case {"type": "text_delta" | "whole", "text": str(text)} if text:
                return Delta(text=text)
            case {"type": "thinking_delta" | "whole", "thinking": str(thought)}:
                signature = delta.get("signature")
                self._signature = signature if isinstance(signature, str) else self._signature
                self._thought.write(thought)
                return Delta(reasoning=thought) if thought else None
            case {"type": "signature_delta", "signature": str(signature)}:
                self._signature += signature
            case {"type": "input_json_delta", "partial_json": str(piece)} if self.call is not None and piece:
                self._has_arguments = True
                return Delta(calls=(CallDelta(self.call, arguments=piece),))
            case _:
                pass
        return None

    def end(self, index: int) -> Delta | None:
        """What its end adds: arguments that came whole, a thought with the signature that lets it be sent back."""
        if self.call is not None:
            given = self._said.get("input")
            whole = orjson.dumps(given if is_object(given) else {}).decode()
            return None if self._has_arguments else Delta(calls=(CallDelta(self.call, arguments=whole),))
        kind = self._said.get("type")
        if kind == "redacted_thinking":
            return Delta(extra={SIGNED_REASONING: [{"index": index, "type": kind, "data": self._said.get("data")}]})
        if kind == "thinking" and self._signature:
            block: Json = {
                "index": index,
                "type": kind,
                "thinking": self._thought.getvalue(),
                "signature": self._signature,
            }
            return Delta(extra={SIGNED_REASONING: [block]})
        return None


def _openai_usage(said: JsonObject) -> JsonObject | None:
    """Token counts as OpenAI tells them: its prompt tokens include those of the cache, Anthropic's input tokens not."""
    fresh, written = _number(said, "input_tokens"), _number(said, "output_tokens")
    if fresh is None or written is None:
        return None
    read, stored = _number(said, "cache_read_input_tokens"), _number(said, "cache_creation_input_tokens")
    prompt = fresh + (read or 0) + (stored or 0)
    usage: dict[str, Json] = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    cached = {key: n for key, n in (("cached_tokens", read), ("cache_write_tokens", stored)) if n is not None}
    if cached:
        usage["prompt_tokens_details"] = cached
    details = said.get("output_tokens_details")
    thought = _number(details, "thinking_tokens") if is_object(details) else None
    if thought is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": thought}
    return usage


def _number(fields: JsonObject, key: str) -> int | None:
    value = fields.get(key)
    return value if is_count(value) else None


def _chunk(delta: Delta | None) -> Chunk | None:
    return Chunk((delta,)) if delta is not None else None
