"""The record of a call of a task (D39, D42), for observation only: what tasks need is in their state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

CallOutcome: TypeAlias = Literal[
    "responded",
    "written",
    "edits_failed",
    "rejected",
    "passed",
    "failed",
    "invalid",
    "truncated",
    "no_response",
    "error",
]
"""The outcome of a call. While its attempt runs: `responded`, `written`. Once it has ended: `passed`, `failed` by the
checks, `edits_failed`, or `rejected`, such as a path outside the scope. Without a usable response: `invalid`,
`truncated`, `no_response`, or `error` of the model server.
"""


@dataclass(frozen=True, slots=True)
class TaskCallRecord:
    """One call. A call that is repeated after a crash has the same `task_id`, `round` and `part`."""

    task_id: str
    round: int
    """The number of attempts of all operations that had ended before the call."""
    part: int
    """0, or 1 for the request for edits that had failed."""
    at: float
    """When the call ended, in seconds since 1970."""
    operation: str
    step: str | None
    attempt: int
    tier: str
    model: str
    form: str
    outcome: CallOutcome
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    requests: int = 1
    match_levels: tuple[str, ...] = ()
