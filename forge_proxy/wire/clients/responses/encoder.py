"""Encodes responses of the engine as items and events of the Responses API, streamed and whole."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import orjson

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import CallDelta, Chunk, Delta, Reply
from forge_proxy.wire.clients.chat_completions.response import encode_comment
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.responses.errors import encode_failure
from forge_proxy.wire.clients.responses.output import OutputWriter
from forge_proxy.wire.clients.responses.output_items import ItemEvent
from forge_proxy.wire.clients.responses.request import ConvertedRequest, decode_request
from forge_proxy.wire.clients.responses.response_object import (
    QUEUED_EVENTS,
    ResponseHead,
    convert_usage,
    encode_state_event,
    is_background,
)


class ResponsesEncoder:
    """Encodes one response as events (`api.streaming.StreamEncoder`), or as the object with which they end."""

    media_type = "text/event-stream"

    def __init__(self, request: ConvertedRequest, response_id: str, created: int) -> None:
        self._request = request
        self._created = created
        self._output = OutputWriter(request.body, request.tools, response_id.removeprefix("resp_"))
        self._model = request.chat.model or ""
        self._head: ResponseHead | None = None
        self._usage: JsonObject | None = None
        self._number = QUEUED_EVENTS if is_background(request.body) else 0
        self._closing = b""
        self.response_id = response_id
        self.store = request.is_stored
        """Whether the response is stored, which clients rely on when they refer to it."""

    def write(self, chunk: Chunk) -> bytes:
        """Encode a chunk. This API has no event for prompt progress.

        A chunk without content does not begin the stream: as long as a response is held back, an error can have its
        own status.
        """
        if chunk.progress is not None:
            return b""
        if isinstance(model := chunk.head.get("model"), str) and model:
            self._model = model
        opening = self._begin() if chunk.deltas else b""
        if chunk.usage is not None:
            self._usage = convert_usage(chunk.usage)
        return opening + self._encode([event for delta in _first_choice(chunk) for event in self._output.add(delta)])

    def comment(self, text: str) -> bytes:
        """Encode a comment, which clients ignore."""
        return encode_comment(text)

    def keepalive(self) -> bytes:
        """Repeat that the response is in progress: clients that time out on silence do not count comments."""
        return self._begin() or self._take_closing() + self._state_event("in_progress")

    def close(self) -> None:
        """End the output: from now on, `output` and `response` are complete. `finish` encodes the events."""
        self._closing += self._begin() + self._encode(self._output.close())

    def finish(self, report: Report) -> bytes:
        """Encode the end of the stream: `response.completed` or `response.incomplete`."""
        self.close()
        return self._take_closing() + self._state_event(self._status)

    def error(self, error: ClassifiedError) -> bytes:
        """Encode an error as the last event: the response has failed."""
        return self._begin() + self._state_event("failed", encode_failure(error))

    def _take_closing(self) -> bytes:
        closing, self._closing = self._closing, b""
        return closing

    @property
    def next_number(self) -> int:
        """The `sequence_number` of the next event."""
        return self._number

    @property
    def output(self) -> list[JsonObject]:
        """The complete items."""
        return self._output.items

    def response(self) -> bytes:
        """Return the response as JSON, complete after `close`."""
        return self._response(self._status)

    @property
    def _status(self) -> str:
        return "incomplete" if self._output.incomplete else "completed"

    def _begin(self) -> bytes:
        """Encode the events that begin a response, unless they were encoded."""
        if self._head is not None:
            return b""
        self._head = ResponseHead(self._request.repeated, self.response_id, self._created, self._model)
        created = b"" if self._number else self._state_event("created")
        return created + self._state_event("in_progress")

    def _state_event(self, name: str, error: JsonObject | None = None) -> bytes:
        """Encode an event that has the whole response."""
        status = "in_progress" if name == "created" else name
        return encode_state_event(name, self._next(), self._response(status, error))

    def _response(self, status: str, error: JsonObject | None = None) -> bytes:
        assert self._head is not None  # noqa: S101  # `_begin` sets it
        is_over = status != "in_progress"
        return self._head.encode(
            status,
            self.output if is_over else [],
            store=self.store,
            usage=self._usage if is_over else None,
            error=error,
            incomplete=self._output.incomplete if status == "incomplete" else None,
        )

    def _encode(self, events: Sequence[ItemEvent]) -> bytes:
        out: list[bytes] = []
        for event in events:
            event["sequence_number"] = self._next()
            out += (b"event: ", str(event["type"]).encode(), b"\ndata: ", orjson.dumps(event), b"\n\n")
        return b"".join(out)

    def _next(self) -> int:
        self._number += 1
        return self._number - 1


@fast_dataclass
class DecodedResponsesRequest:
    """A decoded request; the codec of the response needs nothing else (`api.surface.DecodedRequest`)."""

    converted: ConvertedRequest
    response_id: str | None = None
    """The id of the response; None to derive it from the id of the request."""
    owner: str = ""
    """Whose the response is if it is stored."""
    size: int = 0
    """Bytes of the request, and of what it refers to."""

    @classmethod
    def decode(cls, body: JsonObject) -> DecodedResponsesRequest:
        """Decode a parsed body that refers to nothing stored. Raises `InvalidRequest` with the path of the field."""
        return cls(decode_request(body))

    @property
    def chat(self) -> ChatRequest:
        """The request as the engine answers it."""
        return self.converted.chat

    def build_stream_encoder(self, request_id: str, created: int) -> ResponsesEncoder:
        """Return the encoder of the response."""
        derived = f"resp_{blake2b(request_id.encode(), digest_size=16).hexdigest()}"
        return ResponsesEncoder(self.converted, self.response_id or derived, created)

    def encode_response(self, response: ResponseCollector, request_id: str, created: int) -> bytes:
        """Encode a response that is not streamed, as JSON."""
        return self.build_whole_encoder(response, request_id, created).response()

    def build_whole_encoder(self, response: ResponseCollector, request_id: str, created: int) -> ResponsesEncoder:
        """Return the encoder after it has encoded the whole response as the events of a stream."""
        encoder = self.build_stream_encoder(request_id, created)
        completion = response.completion()
        deltas = tuple(_whole_delta(reply) for reply in completion.replies)
        encoder.write(Chunk(deltas, completion.usage, completion.head))
        encoder.close()
        return encoder


def _whole_delta(reply: Reply) -> Delta:
    calls = tuple(CallDelta(index, call.id, call.tool, call.arguments) for index, call in enumerate(reply.calls))
    return Delta(
        choice=reply.choice,
        text=reply.text,
        reasoning=reply.reasoning,
        calls=calls,
        finish=reply.finish,
        extra=reply.extra,
        logprobs=reply.logprobs,
    )


def _first_choice(chunk: Chunk) -> list[Delta]:
    return [delta for delta in chunk.deltas if delta.choice == 0]
