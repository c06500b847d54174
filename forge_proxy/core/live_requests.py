"""A request under way, as those who follow it see it: its phase, attempt and speed. It contains no text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.background import Priority

RequestPhase: TypeAlias = Literal[
    "queued", "loading", "preparing", "prefill", "generating", "buffering", "retrying", "finishing"
]
"""queued: waits for a slot. loading: waits because the model server is loading, stopping or switching. preparing: has a
slot, and the daemon prepares the call. prefill: the model server processes the prompt. generating: the model writes, or
sends a whole response, which does not show when it begins.
buffering: it writes what may not be sent yet. retrying: the prompt of a further attempt is processed. finishing: the
model server is done, and the daemon judges the response or sends the rest of it.
"""


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """One request under way."""

    request_id: str
    surface: str
    """The client API; the route of a relayed request; empty for a step of a run."""
    client: str
    """The label of the client's key."""
    program: str
    model: str | None
    """The model that answers, or that the client named while the former is not known."""
    priority: Priority
    streamed: bool
    tools: int
    """How many tools the client offers."""
    phase: RequestPhase
    attempt: int
    faults: tuple[str, ...]
    """The faults of the attempts before."""
    elapsed: float
    """Seconds since its arrival."""
    queue_position: int | None
    """Its place in the queue, from 1; None if it does not wait."""
    prompt_tokens: int | None
    """None if the model server does not report it before its response ends."""
    processed_tokens: int | None
    """Prompt tokens that are processed so far, cached ones included; None if the model server does not report it."""
    output_tokens: int
    """Tokens of the current attempt: the pieces in which the model server sends it, which most send token by token."""
    tokens_per_second: float | None
