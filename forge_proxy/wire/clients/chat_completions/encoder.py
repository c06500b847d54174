"""Encodes responses of the engine as chat completions, streamed and whole. The API's shared code calls it."""

from __future__ import annotations

import orjson

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.wire.clients.chat_completions.errors import encode_error
from forge_proxy.wire.clients.chat_completions.request import decode_request
from forge_proxy.wire.clients.chat_completions.response import (
    DONE,
    ChunkWriter,
    encode_comment,
    encode_completion,
    encode_event,
)
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.errors import ClassifiedError


class ChatStreamEncoder:
    """Encodes one streamed response as server-sent events (`api.streaming.StreamEncoder`).

    `created` is in seconds since 1970. It and `request_id` are used if the backend reports no time or id of its own.
    """

    media_type = "text/event-stream"

    def __init__(self, request: ChatRequest, request_id: str, created: int) -> None:
        self._request = request
        self._request_id = request_id
        self._created = created
        self._writer: ChunkWriter | None = None

    def write(self, chunk: Chunk) -> bytes:
        """Encode a chunk, or forward it unchanged. Prompt progress is for clients that requested it."""
        if chunk.progress is not None:
            is_requested = self._request.body.get("return_progress")
            return encode_event(chunk.as_sent) if is_requested and chunk.as_sent is not None else b""
        writer = self._writer or self._begin(chunk)
        if chunk.as_sent is not None:
            return encode_event(chunk.as_sent)
        return writer.write(chunk, usage=self._request.include_usage)

    def comment(self, text: str) -> bytes:
        """Encode a comment, which clients ignore."""
        return encode_comment(text)

    def keepalive(self) -> bytes:
        """Encode an empty chunk: clients that time out on silence do not count comments."""
        return (self._writer or self._begin(None)).keepalive()

    def finish(self, report: Report) -> bytes:
        """Encode the end of the stream."""
        return DONE

    def error(self, error: ClassifiedError) -> bytes:
        """Encode an error as the last event."""
        return encode_event(orjson.dumps(encode_error(error)))

    def _begin(self, first: Chunk | None) -> ChunkWriter:
        self._writer = ChunkWriter(build_response_head(first, self._request, self._request_id, self._created))
        return self._writer


@fast_dataclass
class DecodedChatRequest:
    """A decoded request; the codec of the response needs nothing else (`api.surface.DecodedRequest`)."""

    chat: ChatRequest

    @classmethod
    def decode(cls, body: JsonObject) -> DecodedChatRequest:
        """Decode a parsed body. Raises `InvalidRequest` with the path of the field."""
        return cls(decode_request(body))

    def build_stream_encoder(self, request_id: str, created: int) -> ChatStreamEncoder:
        """Return the encoder of the streamed response."""
        return ChatStreamEncoder(self.chat, request_id, created)

    def encode_response(self, response: ResponseCollector, request_id: str, created: int) -> bytes:
        """Encode a whole response; the model server's own JSON if it sent one object and it is forwarded unchanged."""
        if response.as_sent is not None:
            return response.as_sent
        head = build_response_head(response.first, self.chat, request_id, created)
        return encode_completion(response.completion(), head)


def build_response_head(first: Chunk | None, request: ChatRequest, request_id: str, created: int) -> JsonObject:
    """Return the id, time and model of a response: the backend's, or the daemon's for those that are missing."""
    from_backend: JsonObject = first.head if first else {}
    head: JsonObject = {
        "id": from_backend.get("id") or f"chatcmpl-{request_id}",
        "created": from_backend.get("created") or created,
        "model": from_backend.get("model") or request.model or "",
    }
    if "system_fingerprint" in from_backend:
        head = {**head, "system_fingerprint": from_backend["system_fingerprint"]}
    return head
