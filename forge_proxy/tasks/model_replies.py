"""Reads the responses to the requests of calls, streamed and whole."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.requests.records import TokenCounts, read_token_counts
from forge_proxy.core.stream import Chunk, ReplyBuilder
from forge_proxy.tasks.request_bodies import RESPONSE_TOOL
from forge_proxy.wire.backends.openai.response import decode_response


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The response to one request of a call, without the reasoning of the model."""

    text: str
    is_cut: bool
    """Whether it ended at the limit of its tokens."""
    tokens: TokenCounts
    model: str
    seconds: float


class ReplyReader:
    """Collects the chunks of one response."""

    def __init__(self) -> None:
        self._builder = ReplyBuilder()
        self._usage: JsonObject | None = None
        self._model = ""

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk."""
        for delta in chunk.deltas:
            self._builder.add(delta)
        self._usage = chunk.usage or self._usage
        named = chunk.head.get("model")
        self._model = named if isinstance(named, str) else self._model

    def reply(self, served: str | None, seconds: float) -> ModelReply:
        """Return the reply. `served` is the model that was requested, if it has a name."""
        reply = self._builder.reply()
        text = next((call.arguments for call in reply.calls if call.tool == RESPONSE_TOOL), reply.text or "")
        return ModelReply(
            text, reply.finish == "length", read_token_counts(self._usage), served or self._model, seconds
        )


def read_completion(body: JsonObject) -> ReplyReader:
    """Return the reader of a whole chat completion."""
    reader = ReplyReader()
    reader.add(decode_response(orjson.dumps(body), whole=True))
    return reader
