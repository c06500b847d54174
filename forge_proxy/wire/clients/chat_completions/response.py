"""Encodes a chat completion for the client: as server-sent events, or as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.stream import CallDelta, Chunk, Completion, Delta, Reply

DONE = b"data: [DONE]\n\n"


def encode_event(data: bytes) -> bytes:
    """Return one server-sent event."""
    return b"".join((b"data: ", data, b"\n\n"))  # one copy: the event may have megabytes


def encode_comment(words: str) -> bytes:
    """Return a comment line, which clients ignore."""
    return b": " + words.replace("\n", " ").encode() + b"\n\n"


class ChunkWriter:
    """Encodes chunks. All have the same id, time and model, and each choice begins with its role.

    `head` has these three fields; later values from the backend are ignored.
    """

    def __init__(self, head: JsonObject) -> None:
        self._head: dict[str, Json] = {**head, "object": "chat.completion.chunk"}
        self._begun: set[int] = set()

    def write(self, chunk: Chunk, *, usage: bool) -> bytes:
        """Return the events of a chunk. `usage` is whether the client requested a usage chunk."""
        later = {key: value for key, value in chunk.head.items() if key not in self._head}
        out = b"".join(self._event(part, later) for delta in chunk.deltas for part in self._parts(delta))
        if chunk.usage is not None and usage:
            out += encode_event(orjson.dumps({**self._head, **later, "choices": [], "usage": chunk.usage}))
        return out

    def keepalive(self) -> bytes:
        """Return an empty chunk: for clients with a read timeout, comments do not count as data."""
        return self._event({"index": 0, "delta": {}, "finish_reason": None}, {})

    def _event(self, choice: Mapping[str, object], later: JsonObject) -> bytes:
        return encode_event(orjson.dumps({**self._head, **later, "choices": [choice]}))

    def _parts(self, delta: Delta) -> list[dict[str, object]]:
        """Return one choice per event: the text, then two for each call, then the finish reason."""
        fields: list[dict[str, Json]] = []
        content = dict(delta.extra)
        if delta.reasoning is not None:
            content["reasoning_content"] = delta.reasoning
        if delta.text is not None:
            content["content"] = delta.text
        content = self._with_role(delta.choice, content)
        beside = _choice_fields(delta)
        if content or beside:
            fields.append(content)
        for call in delta.calls:
            fields.extend({"tool_calls": [part]} for part in _call_parts(call))
        parts: list[dict[str, object]] = [
            {"index": delta.choice, "delta": field, "finish_reason": None} for field in fields
        ]
        if fields:
            parts[0].update(beside)
        if delta.finish is not None:
            parts.append({"index": delta.choice, "delta": {}, "finish_reason": delta.finish})
        return parts

    def _with_role(self, choice: int, content: dict[str, Json]) -> dict[str, Json]:
        if choice in self._begun:
            content.pop("role", None)
            return content
        self._begun.add(choice)
        return {"role": "assistant", "content": None, **content}


def encode_completion(completion: Completion, head: JsonObject) -> bytes:
    """Return a whole completion as JSON. `head` has its id, time and model."""
    body: dict[str, object] = {**completion.head, **head, "object": "chat.completion"}
    body["choices"] = [_choice(reply) for reply in completion.replies]
    if completion.usage is not None:
        body["usage"] = completion.usage
    return orjson.dumps(body)


def _call_parts(call: CallDelta) -> list[Json]:
    """Return the two deltas of a call that every client accepts: id, type and name, then the arguments."""
    first: Json = {
        "index": call.index,
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    return [first, {"index": call.index, "function": {"arguments": call.arguments}}]


def _choice(reply: Reply) -> dict[str, object]:
    message: dict[str, Json] = {"role": "assistant", "content": reply.text, **reply.extra}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
            for call in reply.calls
        ]
    return {
        "index": reply.choice,
        "message": message,
        "finish_reason": reply.finish or "stop",
        **_choice_fields(reply),
    }


def _choice_fields(source: Delta | Reply) -> Mapping[str, object]:
    if source.logprobs is None:
        return source.choice_fields
    return {"logprobs": orjson.Fragment(source.logprobs.encode()), **source.choice_fields}
