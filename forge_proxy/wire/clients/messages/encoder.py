"""Encodes responses of the engine as messages, streamed and whole. Both take one path: a whole message is made of the
events of its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

import orjson

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.estimate import estimate_prompt_tokens, estimate_text_tokens
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_list
from forge_proxy.core.stream import CallDelta, Chunk, Delta, Reply
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.messages.blocks import BlockWriter
from forge_proxy.wire.clients.messages.errors import encode_error
from forge_proxy.wire.clients.messages.reasoning import is_reasoning_omitted
from forge_proxy.wire.clients.messages.request import decode_request
from forge_proxy.wire.clients.messages.usage import begin_usage, encode_usage
from forge_proxy.wire.message_repair import to_arguments_object

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


@fast_dataclass
class DecodedMessagesRequest:
    """A decoded request; the codec of the response needs nothing else (`api.surface.DecodedRequest`)."""

    chat: ChatRequest
    omits_reasoning: bool = False
    """Whether thinking blocks do not show the reasoning."""

    @classmethod
    def decode(cls, body: JsonObject) -> DecodedMessagesRequest:
        """Decode a parsed body. Raises `InvalidRequest` with the path of the field."""
        return cls(decode_request(body), is_reasoning_omitted(body))

    def build_stream_encoder(self, request_id: str, created: int) -> MessagesStreamEncoder:
        """Return the encoder of the streamed response."""
        return MessagesStreamEncoder(self.chat, request_id, shows_reasoning=not self.omits_reasoning)

    def encode_response(self, response: ResponseCollector, request_id: str, created: int) -> bytes:
        """Encode a whole response."""
        completion = response.completion()
        writer = MessageWriter(self.chat, request_id, shows_reasoning=not self.omits_reasoning)
        writer.note_head(completion.head)
        events = writer.begin()
        writer.usage = completion.usage
        for reply in completion.replies[:1]:
            for delta in _deltas(reply):
                events += writer.add(delta)
        return orjson.dumps(_assemble([*events, *writer.finish(response.report)]))


class MessageWriter:
    """Writes the events of one message. `usage` is the model server's, None as long as it reports none."""

    def __init__(self, request: ChatRequest, request_id: str, *, shows_reasoning: bool) -> None:
        identity = request_id.removeprefix("req_")
        self._request = request
        self._id = f"msg_{identity}"
        self._blocks = BlockWriter(f"toolu_{identity}", shows_reasoning=shows_reasoning)
        self._head: JsonObject = {}
        self._finish = ""
        self._stop_sequence: str | None = None
        self.usage: JsonObject | None = None
        self.prompt_tokens: int | None = None
        """Tokens of the prompt if they are known before the response."""

    def begin(self) -> list[JsonObject]:
        """Return the first event."""
        identity, model = self._head.get("id"), self._head.get("model")
        reported = self.usage.get("prompt_tokens") if self.usage else None
        message: JsonObject = {
            "id": identity if isinstance(identity, str) and identity.startswith("msg_") else self._id,
            "type": "message",
            "role": "assistant",
            "model": model if isinstance(model, str) else self._request.model or "",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": begin_usage(reported if is_count(reported) else self._prompt_size()),
        }
        return [{"type": "message_start", "message": message}]

    def note_head(self, head: JsonObject) -> None:
        """Add top-level fields of the response: its id and model, or llama-server's `timings`, which come last."""
        if head:
            self._head = {**self._head, **head}

    def add(self, delta: Delta) -> list[JsonObject]:
        """Return the events of a delta."""
        if delta.choice:
            return []
        self._finish = delta.finish or self._finish
        stop = delta.choice_fields.get("stop_reason")  # vLLM's: the sequence, or the id of a token
        if isinstance(stop, str) and stop in self._stops():
            self._stop_sequence = stop
        return self._blocks.add(delta)

    def finish(self, report: Report | None) -> list[JsonObject]:
        """Return the events that end the message."""
        events = self._blocks.finish()
        usage = encode_usage(
            self.usage, self._head, prompt=self._prompt_size(), completion=estimate_text_tokens(self._blocks.size)
        )
        reason = self._stop_reason(was_cut=report is not None and report.has_loop)
        sequence = self._stop_sequence if reason == "stop_sequence" else None
        delta: JsonObject = {"stop_reason": reason, "stop_sequence": sequence}
        return [*events, {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]

    def _stop_reason(self, *, was_cut: bool) -> str:
        reason = _STOP_REASONS.get(self._finish, "end_turn")
        written, limit = (self.usage or {}).get("completion_tokens"), self._request.limit
        if reason == "end_turn" and self._blocks.has_calls:
            return "tool_use"
        if reason == "end_turn" and self._stop_sequence is not None:
            return "stop_sequence"
        if reason == "max_tokens" and not was_cut and limit is not None and is_count(written) and written < limit:
            return "model_context_window_exceeded"
        return reason

    def _stops(self) -> list[Json]:
        stops = self._request.body.get("stop")
        return stops if is_list(stops) else []

    def _prompt_size(self) -> int:
        if self.prompt_tokens is None:
            self.prompt_tokens = estimate_prompt_tokens([*self._request.messages], self._request.body.get("tools"))
        return self.prompt_tokens


class MessagesStreamEncoder:
    """Encodes one streamed response as server-sent events (`api.streaming.StreamEncoder`)."""

    media_type = "text/event-stream"

    def __init__(self, request: ChatRequest, request_id: str, *, shows_reasoning: bool) -> None:
        self._writer = MessageWriter(request, request_id, shows_reasoning=shows_reasoning)
        self._request_id = request_id
        self._has_begun = False

    def set_prompt_tokens(self, tokens: int) -> None:
        """Set the tokens of the prompt, for the first event."""
        if not self._has_begun:
            self._writer.prompt_tokens = tokens

    def write(self, chunk: Chunk) -> bytes:
        """Encode a chunk. Prompt progress and usage have no event of their own.

        A chunk without content does not begin the stream: as long as a response is held back, an error can have its
        own status.
        """
        if chunk.progress is not None:
            return b""
        if chunk.usage is not None:
            self._writer.usage = chunk.usage
        self._writer.note_head(chunk.head)
        events = self._begin() if chunk.deltas else []
        for delta in chunk.deltas:
            events += self._writer.add(delta)
        return _encode_events(events)

    def comment(self, text: str) -> bytes:
        """Encode a comment, which clients ignore."""
        return b": " + text.replace("\n", " ").encode() + b"\n\n"

    def keepalive(self) -> bytes:
        """Encode a ping, after the first event of the message."""
        return _encode_events([*self._begin(), {"type": "ping"}])

    def finish(self, report: Report) -> bytes:
        """Encode the end of the message."""
        return _encode_events([*self._begin(), *self._writer.finish(report)])

    def error(self, error: ClassifiedError) -> bytes:
        """Encode an error as the last event."""
        return _encode_events([encode_error(error._replace(request_id=self._request_id))])

    def _begin(self) -> list[JsonObject]:
        """Return the first event, unless it was sent."""
        if self._has_begun:
            return []
        self._has_begun = True
        return self._writer.begin()


def _encode_events(events: Sequence[JsonObject]) -> bytes:
    """Return server-sent events. The name of each is its type."""
    return b"".join(
        b"event: " + str(event["type"]).encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n" for event in events
    )


def _deltas(reply: Reply) -> list[Delta]:
    """Return a whole reply as the deltas of a stream."""
    calls = [
        Delta(calls=(CallDelta(index, call.id, call.tool, call.arguments),)) for index, call in enumerate(reply.calls)
    ]
    first = Delta(text=reply.text, reasoning=reply.reasoning, extra=reply.extra, choice_fields=reply.choice_fields)
    return [first, *calls, Delta(finish=reply.finish)]


def _assemble(events: Sequence[JsonObject]) -> JsonObject:
    """Return the message of a whole stream."""
    message: dict[str, Json] = {}
    blocks: list[Json] = []
    building = _BlockBuilder({})
    for event in events:
        match event:
            case {"type": "message_start", "message": {**begun}}:
                message = begun
            case {"type": "content_block_start", "content_block": {**begun}}:
                building = _BlockBuilder(begun)
            case {"type": "content_block_delta", "delta": {**delta}}:
                building.add(delta)
            case {"type": "content_block_stop"}:
                blocks.append(building.block())
            case {"type": "message_delta", "delta": {**delta}, "usage": usage}:
                message |= {**delta, "usage": usage}
            case _:
                pass
    return {**message, "content": blocks}


class _BlockBuilder:
    """Assembles the events of one block."""

    def __init__(self, begun: JsonObject) -> None:
        self._begun = begun
        self._text = StringIO()
        self._signature = ""

    def add(self, delta: JsonObject) -> None:
        match delta:
            case {"text": str(piece)} | {"thinking": str(piece)} | {"partial_json": str(piece)}:
                self._text.write(piece)
            case {"signature": str(signature)}:
                self._signature = signature
            case _:
                pass

    def block(self) -> Json:
        match self._begun.get("type"):
            case "text":
                return {**self._begun, "text": self._text.getvalue()}
            case "thinking":
                return {**self._begun, "thinking": self._text.getvalue(), "signature": self._signature}
            case "tool_use":
                return {**self._begun, "input": to_arguments_object(self._text.getvalue() or "{}")}
            case _:
                return self._begun
