"""Encodes the text of requests for the store, and decodes it. Pure.

`telemetry` encodes in a thread, `api` decodes for the admin API.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

from forge_proxy.core.chat import ChatRequest, ToolGrammar
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.requests.content import (
    AttemptContent,
    CallDifference,
    RequestContent,
    StoredAttempt,
    StoredContent,
)
from forge_proxy.core.stream import Reply
from forge_proxy.wire.backends.openai.request import encode_call

MAX_CONTENT = 2 * 1024 * 1024
"""Characters of one request that are stored whole: a conversation that fills a window of 400,000 tokens."""
LONGEST_TEXT = 4000
"""Characters that are kept of each longer text of a larger request."""
_LEVEL = 1
"""zlib's fastest level: conversations shrink to a third, at some 100 MB a second."""
_SMALL = 8
"""The size that each value counts in addition to its characters."""


class EncodedContent(NamedTuple):
    """The compressed text of a request."""

    data: bytes
    is_cut: bool
    """Whether long texts were cut."""


def encode_content(content: RequestContent) -> EncodedContent | None:
    """Encode the text of a request; None if it is too large even after its long texts were cut."""
    document = _to_json(content)
    is_cut = content.is_cut
    if _measure(document, MAX_CONTENT) > MAX_CONTENT:
        room = _Room(MAX_CONTENT)
        document, is_cut = {name: _cut(part, room) for name, part in document.items()}, True
        if room.left < 0:
            return None
    return EncodedContent(zlib.compress(_dump({**document, "is_cut": is_cut}), _LEVEL), is_cut)


def decode_content(data: bytes) -> StoredContent:
    """Decode what `encode_content` has returned."""
    document: dict[str, Any] = orjson.loads(zlib.decompress(data))
    return StoredContent(
        document["request"],
        tuple(map(_read_attempt, document["attempts"])),
        tuple(map(_read_reply, document["received"])),
        document["is_cut"],
        document["is_converted"],
        {name: ToolGrammar(**grammar) for name, grammar in document["grammars"].items()},
        document["anthropic"],
    )


def _to_json(content: RequestContent) -> dict[str, Json]:
    request: ChatRequest = content.request
    before: JsonObject = request.body
    attempts: list[Json] = []
    for attempt in content.attempts:
        body = encode_call(attempt.call)
        attempts.append(_attempt_to_json(attempt, CallDifference.between(before, body)))
        before = body
    return {
        "request": request.body,
        "attempts": attempts,
        "received": _replies_to_json(content.received),
        "is_converted": request.is_converted,
        "grammars": {tool.name: asdict(tool.grammar) for tool in request.tools if tool.grammar is not None},
        "anthropic": request.anthropic,
    }


def _attempt_to_json(attempt: AttemptContent, difference: CallDifference) -> Json:
    call: Json = {
        "kept_messages": difference.kept_messages,
        "messages": [*difference.messages],
        "kept_tools": difference.kept_tools,
        "tools": [*difference.tools],
        "fields": difference.fields,
        "removed": [*difference.removed],
    }
    correction: list[Json] = [message.to_api_dict() for message in attempt.correction]
    return {
        "number": attempt.number,
        "verdict": attempt.verdict,
        "fault": attempt.fault,
        "call": call,
        "replies": _replies_to_json(attempt.replies),
        "correction": correction,
        "usage": attempt.usage,
    }


def _replies_to_json(replies: Iterable[Reply]) -> list[Json]:
    return [
        {
            "choice": reply.choice,
            "text": reply.text,
            "reasoning": reply.reasoning,
            "calls": [{"id": call.id, "name": call.tool, "arguments": call.arguments} for call in reply.calls],
            "finish": reply.finish,
        }
        for reply in replies
    ]


def _read_attempt(fields: dict[str, Any]) -> StoredAttempt:
    call = fields["call"]
    difference = CallDifference(
        call["kept_messages"], tuple(call["messages"]), call["kept_tools"], tuple(call["tools"]), call["fields"],
        tuple(call["removed"]),
    )  # fmt: skip
    return StoredAttempt(
        fields["number"],
        fields["verdict"],
        fields["fault"],
        difference,
        tuple(map(_read_reply, fields["replies"])),
        tuple(fields["correction"]),
        fields["usage"],
    )


def _read_reply(fields: dict[str, Any]) -> Reply:
    calls = tuple(ToolCall(call["name"], call["arguments"], call["id"]) for call in fields["calls"])
    return Reply(fields["choice"], fields["text"], fields["reasoning"], calls, fields["finish"])


def _dump(document: JsonObject) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # a surrogate without its pair, or an integer of more than 64 bits
        return json.dumps(document, ensure_ascii=False).encode(errors="replace")


class _Room:
    """The characters that may still be added."""

    def __init__(self, characters: int) -> None:
        self.left = characters


def _measure(value: Json, most: int) -> int:
    """Return the characters of a value; a number above `most` if there are more, without looking at the rest."""
    if isinstance(value, str):
        return _SMALL + len(value)
    parts = value.values() if is_object(value) else value if is_list(value) else ()
    size = _SMALL + (sum(map(len, value)) if is_object(value) else 0)
    for part in parts:
        if size > most:
            break
        size += _measure(part, most - size)
    return size


def _cut(value: Json, room: _Room) -> Json:
    """Return a value with its long texts cut. It is incomplete if no room is left then."""
    room.left -= _SMALL
    if room.left < 0:
        return None
    if isinstance(value, str):
        text = value if len(value) <= LONGEST_TEXT else _cut_text(value)
        room.left -= len(text)
        return text
    if is_object(value):
        return {name: _cut(part, room) for name, part in value.items()}
    return [_cut(part, room) for part in value] if is_list(value) else value


def _cut_text(text: str) -> str:
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters were not stored]\n{text[-half:]}"
