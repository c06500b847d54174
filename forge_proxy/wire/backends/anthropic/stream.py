"""Decodes the response of a Messages server: the events of a stream, or a whole message as one chunk."""

from __future__ import annotations

from io import StringIO

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_list, is_object
from forge_proxy.core.stream import SIGNED_REASONING, CallDelta, Chunk, Delta
from forge_proxy.wire.backends.anthropic.tools import ToolNames
from forge_proxy.wire.backends.responses import (
    EventReader,
    UnreadableResponse,
    join_chunks,
    parse_response,
    without_traceback,
)
from forge_proxy.wire.sse import BOM, MAX_RESPONSE

_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",  # a server tool runs for long: the content so far is the response
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class MessageReader(EventReader):
    """Takes the bytes of a stream or of a whole message and returns its chunks.

    `model` replaces the server's model name; `names` are the tool names of the request. `reports_stop` is whether the
    last delta reports the stop sequence, by vLLM's name for it.
    """

    def __init__(
        self,
        names: ToolNames,
        model: str | None = None,
        *,
        limit: int = MAX_RESPONSE,
        buffered: bool = False,
        declared_events: bool = True,
        reports_stop: bool = False,
    ) -> None:
        super().__init__(limit=limit, buffered=buffered, declared_events=declared_events)
        self._names = names
        self._reports_stop = reports_stop
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._usage: dict[str, Json] = {}

    def _read_whole(self, body: bytes) -> list[Chunk]:
        """Decode a whole message as if it had been streamed."""
        message = parse_response(body.removeprefix(BOM))
        blocks = message.get("content")
        if message.get("type") != "message" or not is_list(blocks):
            raise UnreadableResponse("not a message")
        events: list[JsonObject] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_delta", "delta": message, "usage": message.get("usage")})
        events.append({"type": "message_stop"})
        return [join_chunks([chunk for event in events if (chunk := self._take(event)) is not None])]

    def _read(self, events: list[bytes]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for event in events:
            try:
                chunk = self._take(parse_response(event))
            except UnreadableResponse as exc:
                self.fault = without_traceback(exc)
                break
            if chunk is not None:
                chunks.append(chunk)
            if self.is_done:
                break
        return [join_chunks(chunks)] if len(chunks) > 1 else chunks

    def _take(self, event: JsonObject) -> Chunk | None:
        """Return the chunk of an event; None for one without content, such as `ping`."""
        match event:
            case {"type": "message_start", "message": {**message}}:
                self.has_begun = True
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
                self.is_done = True
            case _:
                pass
        return None

    def _begin(self, index: int, fields: JsonObject) -> Chunk | None:
        block = self._blocks[index] = _Block(fields)
        if fields.get("type") == "tool_use":
            name, identity = fields.get("name"), fields.get("id")
            begun = CallDelta(
                self._calls,
                identity if isinstance(identity, str) else "",
                self._names.decode(name) if isinstance(name, str) else "",
            )
            block.call, self._calls = self._calls, self._calls + 1
            return _chunk(Delta(calls=(begun,)))
        return _chunk(block.add({**fields, "type": "whole"}))

    def _finish(self, delta: JsonObject, usage: Json) -> Chunk | None:
        self._count(usage)
        reason = delta.get("stop_reason")
        if not isinstance(reason, str):
            return None
        self.has_finish_reason = True
        details = delta.get("stop_details")
        why = details.get("explanation") if is_object(details) else None
        refusal: JsonObject = {"refusal": why} if reason == "refusal" and isinstance(why, str) else {}
        sequence = delta.get("stop_sequence")
        stop: JsonObject = {"stop_reason": sequence} if self._reports_stop and isinstance(sequence, str) else {}
        end = Delta(finish=_FINISHES.get(reason, "stop"), extra=refusal, choice_fields=stop)
        return Chunk((end,), usage=_openai_usage(self._usage))

    def _count(self, usage: Json) -> None:
        if is_object(usage):  # each event reports the sums so far and omits unknown ones
            self._usage |= {key: value for key, value in usage.items() if value is not None}


class _Block:
    """A content block in progress. `call` is the index of the call if it is one."""

    def __init__(self, fields: JsonObject) -> None:
        self._start = fields
        self._reasoning = StringIO()
        self._has_arguments = False
        self._signature = ""
        self.call: int | None = None

    def add(self, delta: JsonObject) -> Delta | None:
        """Return the content of a delta. The content of the start event comes as a delta of type `whole`."""
        match delta:
            case {"type": "text_delta" | "whole", "text": str(text)} if text:
                return Delta(text=text)
            case {"type": "thinking_delta" | "whole", "thinking": str(reasoning)}:
                signature = delta.get("signature")
                self._signature = signature if isinstance(signature, str) else self._signature
                self._reasoning.write(reasoning)
                return Delta(reasoning=reasoning) if reasoning else None
            case {"type": "signature_delta", "signature": str(signature)}:
                self._signature += signature
            case {"type": "input_json_delta", "partial_json": str(piece)} if self.call is not None and piece:
                self._has_arguments = True
                return Delta(calls=(CallDelta(self.call, arguments=piece),))
            case _:
                pass
        return None

    def end(self, index: int) -> Delta | None:
        """Return the content added by the end: complete arguments, or a signed thinking block to send back."""
        if self.call is not None:
            given = self._start.get("input")
            whole = orjson.dumps(given if is_object(given) else {}).decode()
            return None if self._has_arguments else Delta(calls=(CallDelta(self.call, arguments=whole),))
        kind = self._start.get("type")
        if kind == "redacted_thinking":
            return Delta(extra={SIGNED_REASONING: [{"index": index, "type": kind, "data": self._start.get("data")}]})
        if kind == "thinking" and self._signature:
            block: Json = {
                "index": index,
                "type": kind,
                "thinking": self._reasoning.getvalue(),
                "signature": self._signature,
            }
            return Delta(extra={SIGNED_REASONING: [block]})
        return None


def _openai_usage(fields: JsonObject) -> JsonObject | None:
    """Return the usage in OpenAI's format: its prompt tokens include cached ones, Anthropic's input tokens do not."""
    fresh, written = _number(fields, "input_tokens"), _number(fields, "output_tokens")
    if fresh is None or written is None:
        return None
    read, stored = _number(fields, "cache_read_input_tokens"), _number(fields, "cache_creation_input_tokens")
    prompt = fresh + (read or 0) + (stored or 0)
    usage: dict[str, Json] = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    cached = {key: n for key, n in (("cached_tokens", read), ("cache_write_tokens", stored)) if n is not None}
    if cached:
        usage["prompt_tokens_details"] = cached
    details = fields.get("output_tokens_details")
    reasoning = _number(details, "thinking_tokens") if is_object(details) else None
    if reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return usage


def _number(fields: JsonObject, key: str) -> int | None:
    value = fields.get(key)
    return value if is_count(value) else None


def _chunk(delta: Delta | None) -> Chunk | None:
    return Chunk((delta,)) if delta is not None else None
