"""Collects the text of one request while the engine works on it. Exists only if an observer of contents was set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.guardrails import CallSuppressor, Retry
from forge_proxy.core.guardrails.attempt import FinishedAttempt
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import Message
from forge_proxy.core.requests.content import AttemptContent, AttemptVerdict, RequestContent
from forge_proxy.core.requests.records import RequestRecord
from forge_proxy.core.stream import Chunk, Reply
from forge_proxy.engine.ports import ContentObserver
from forge_proxy.wire.backends.openai.response import decode_response
from forge_proxy.wire.backends.responses import UnreadableResponse, split_events
from forge_proxy.wire.clients.collector import ResponseCollector

MAX_COLLECTED = 2 * 1024 * 1024
"""Characters of a response that are collected: a streamed response without tools is otherwise never kept."""


class BoundedReply:
    """The replies in the chunks of a response, up to a size."""

    def __init__(self) -> None:
        self._collector = ResponseCollector()
        self._size = 0

    @property
    def is_cut(self) -> bool:
        """Whether chunks were omitted."""
        return self._size > MAX_COLLECTED

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk. The events of a chunk that is forwarded unchanged have not been parsed yet."""
        if chunk.restarts:
            self._collector, self._size = ResponseCollector(), 0
        if self.is_cut:
            return
        for part in _parse_events(chunk.as_sent) if chunk.as_sent is not None else (chunk,):
            self._size += _count_characters(part)
            if not self.is_cut:
                self._collector.add(part)

    def replies(self) -> tuple[Reply, ...]:
        """Return the replies so far."""
        return self._collector.completion().replies


class ContentRecorder:
    """The text of one request."""

    def __init__(self, observers: Sequence[ContentObserver], request_id: str, request: ChatRequest) -> None:
        self._observers = observers
        self._request_id = request_id
        self._request = request
        self._attempts: list[AttemptContent] = []
        self._received = BoundedReply()
        self._read_relay: Callable[[], tuple[ModelCall, JsonObject | None]] | None = None
        self._suppressor: CallSuppressor | None = None

    def end_attempt(
        self,
        call: ModelCall,
        replies: Sequence[Reply],
        usage: JsonObject | None,
        turn: Turn,
        verdict: Retry | FinishedAttempt | None,
    ) -> None:
        """Record that the attempt of `turn` has ended with this verdict; None if the request ended in it."""
        match verdict:
            case Retry(following, fault):
                known = len(turn.added)
                added = following.added[known:] if following.added[:known] == turn.added else ()
                self._add_attempt(call, replies, usage, "retried", fault.value, added)
            case FinishedAttempt():
                self._add_attempt(call, replies, usage, "delivered")
            case None:
                self._add_attempt(call, replies, usage, "failed")

    def begin_relay(
        self, read: Callable[[], tuple[ModelCall, JsonObject | None]], suppressor: CallSuppressor | None
    ) -> None:
        """Record that the response is relayed. `read` returns the call as it was sent and its token counts."""
        self._read_relay, self._suppressor = read, suppressor

    def add_received(self, chunk: Chunk) -> None:
        """Record a chunk that is sent to the client."""
        self._received.add(chunk)

    def finish(self, record: RequestRecord) -> None:
        """Pass on the text of the whole request."""
        received = self._received.replies()
        if self._read_relay is not None:
            call, usage = self._read_relay()
            is_complete = record.result not in ("failed", "abandoned")
            replies = received if self._suppressor is None else self._suppressor.restore_calls(received)
            self._add_attempt(call, replies, usage, "delivered" if is_complete else "failed")
        attempts = tuple(self._attempts)
        self._observe(RequestContent(record, self._request, attempts, received, self._received.is_cut))

    def _observe(self, content: AttemptContent | RequestContent) -> None:
        for observe in self._observers:
            observe(content)

    def _add_attempt(
        self,
        call: ModelCall,
        replies: Sequence[Reply],
        usage: JsonObject | None,
        verdict: AttemptVerdict,
        fault: str | None = None,
        correction: tuple[Message, ...] = (),
    ) -> None:
        number = len(self._attempts) + 1
        content = AttemptContent(
            self._request_id, number, call, tuple(replies), verdict, fault, correction, usage
        )  # fmt: skip
        self._attempts.append(content)
        self._observe(content)


def _parse_events(as_sent: bytes) -> Iterator[Chunk]:
    """Parse what the model server sent. What cannot be parsed is omitted, but the client still receives it."""
    for event in split_events(as_sent):
        try:
            yield replace(decode_response(event, verbatim=True), as_sent=None)
        except UnreadableResponse:
            continue


def _count_characters(chunk: Chunk) -> int:
    return sum(
        len(delta.text or "") + len(delta.reasoning or "") + sum(len(call.arguments) for call in delta.calls)
        for delta in chunk.deltas
    )
