"""What a request is doing right now: a few counters, which cost next to nothing and are read by those who follow it."""

from __future__ import annotations

from forge_proxy.core.live_requests import RequestPhase
from forge_proxy.core.stream import Chunk, PromptProgress
from forge_proxy.engine.ports import Clock


class RequestActivity:
    """The counters of one request. Drafts of the same attempt share them."""

    __slots__ = (
        "_clock", "_output_began", "_streams", "is_guarded", "is_streamed", "progress", "prompt_tokens", "received",
        "released", "sent",
    )  # fmt: skip

    def __init__(self, clock: Clock, *, is_streamed: bool) -> None:
        self._clock = clock
        self._output_began = 0.0
        self.is_streamed = is_streamed
        self.is_guarded = False
        """Whether the stream gate decides what is sent when."""
        self._streams = True
        """Whether the model server streams the response to the current call."""
        self.sent = 0
        """How often the calls of this attempt were sent: more than once if a response was lost."""
        self.progress: PromptProgress | None = None
        self.prompt_tokens: int | None = None
        self.received = 0
        """Pieces of the response that have arrived."""
        self.released = 0
        """`received` when a piece was sent to the client last."""

    def begin_attempt(self) -> None:
        """Record that the attempt before has failed."""
        self.sent = self.received = 0

    def begin_call(self, *, streams: bool) -> None:
        """Record that a call is sent to the model server. `streams`: whether its response is streamed."""
        self._streams = streams
        self.sent += 1
        self.received = self.released = 0
        self.progress = None

    def add_chunk(self, chunk: Chunk) -> None:
        """Record a chunk of the response."""
        if chunk.deltas:
            if not self.received:
                self._output_began = self._clock.now()
            self.received += 1
        elif chunk.progress is not None:
            self.progress = chunk.progress
            self.prompt_tokens = chunk.progress.total

    def find_phase(self, attempt: int, *, is_open: bool) -> RequestPhase:
        """Return the phase of a request that has a slot. `is_open`: whether the model server works on it."""
        is_retried = attempt > 1 or self.sent > 1
        if not is_open:
            return "finishing" if self.received else "retrying" if is_retried else "preparing"
        if not self.received:
            return "retrying" if is_retried else "prefill" if self._streams else "generating"
        is_held = self.is_guarded and self.is_streamed and self.received > self.released
        return "buffering" if is_held else "generating"

    @property
    def tokens_per_second(self) -> float | None:
        """The mean speed of the current attempt; None until two pieces have arrived."""
        seconds = self._clock.now() - self._output_began
        return (self.received - 1) / seconds if self.received > 1 and seconds > 0 else None
