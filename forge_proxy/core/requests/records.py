"""The record of one request: who sent it, what each attempt showed, and how it ended.

A record contains no prompt, no response and no secret. `engine/request_recorder.py` collects it while the request runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.background import Priority
from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.jsontypes import JsonObject, is_count, is_object
from forge_proxy.core.tracing import TraceContext

RequestResult: TypeAlias = Literal[
    "passthrough", "clean", "rescued", "repaired", "retried", "exhausted", "failed", "abandoned"
]
"""How a request ended: with an `Outcome` of the guardrails, in an error, or because its client disconnected."""


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Where a request came from."""

    surface: str = ""
    """The client API, such as `messages`; for relayed requests their route."""
    key_label: str = ""
    """The label of the client's key in `server.api_keys_file`, never the key."""
    program: str = ""
    """The program that the client names in its `user-agent`, with its version."""
    priority: Priority = "interactive"
    """Who waits for the response."""
    traceparent: str = ""
    """The header of that name, as it was received."""


REPLAY = "replay"
"""The surface of a stored request that was sent again."""
UNKNOWN_ORIGIN = RequestOrigin()


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts as the model server reports them. None if it reports none."""

    prompt: int | None = None
    """All tokens of the prompt, cached ones included."""
    cached: int | None = None
    """Tokens of the prompt that the server had in its cache."""
    completion: int | None = None
    reasoning: int | None = None
    """Completion tokens spent on reasoning."""

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(
            _add(self.prompt, other.prompt),
            _add(self.cached, other.cached),
            _add(self.completion, other.completion),
            _add(self.reasoning, other.reasoning),
        )

    @property
    def total(self) -> int:
        """The tokens of the prompt and the completion."""
        return (self.prompt or 0) + (self.completion or 0)


NO_TOKENS = TokenCounts()


def read_token_counts(usage: JsonObject | None) -> TokenCounts:
    """Return the counts of a response's `usage`. A count that is missing or not a number is None."""
    if usage is None:
        return NO_TOKENS
    return TokenCounts(
        _count(usage, "prompt_tokens"),
        _count(usage.get("prompt_tokens_details"), "cached_tokens"),
        _count(usage, "completion_tokens"),
        _count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt of a request."""

    number: int
    fault: str | None = None
    """The `Fault` for which the attempt was retried; None for the attempt that ended the request."""
    tool: str = ""
    """The tool whose call has the fault, cut to the length of a log line. May be a name that the model invented."""
    reason: str = ""
    """What is wrong with it. Never contains a value from the prompt or the response."""
    seconds: float = 0.0
    """Time that the model server took for it."""
    tokens: TokenCounts = NO_TOKENS
    started: float = 0.0
    """Seconds from the arrival of the request to its beginning. Not stored."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call as it was delivered."""

    tool: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A finished request. Times are seconds."""

    request_id: str
    origin: RequestOrigin
    model: str | None
    """The model that the client named."""
    served: str | None
    """The model that answered; None if the request ended before it was known."""
    is_streamed: bool
    tools: int
    """How many tools the client offered."""
    result: RequestResult
    seconds: float
    """From its arrival to its end."""
    queued: float
    first_output: float | None
    """From its arrival to the first piece of the response that was sent; None if nothing was sent."""
    backend_seconds: float
    """Time in which the model server worked on it, with the waiting for a client that reads slowly."""
    attempts: tuple[AttemptRecord, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    """The tool calls that were delivered."""
    interventions: tuple[str, ...] = ()
    error: str = ""
    trace: TraceContext | None = None
    """Its position in a trace, if traces are exported. Not stored."""

    @property
    def overhead(self) -> float:
        """Seconds that the daemon itself took: neither in the queue nor at the model server."""
        return max(0.0, self.seconds - self.queued - self.backend_seconds)

    @property
    def tokens(self) -> TokenCounts:
        """The tokens of all attempts."""
        return sum((attempt.tokens for attempt in self.attempts), NO_TOKENS)

    @property
    def retry_tokens(self) -> int:
        """Tokens of the attempts that were retried."""
        return sum(attempt.tokens.total for attempt in self.attempts if attempt.fault is not None)

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of its attempts, in order."""
        return tuple(attempt.fault for attempt in self.attempts if attempt.fault is not None)


def _add(left: int | None, right: int | None) -> int | None:
    return right if left is None else left + (right or 0)


def _count(fields: object, name: str) -> int | None:
    count = fields.get(name) if is_object(fields) else None
    return count if is_count(count) else None
