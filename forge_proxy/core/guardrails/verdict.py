"""The verdicts that `judge` returns, and the final form of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.messages import ToolCall


@dataclass(frozen=True, slots=True)
class Intervention:
    """One change that a guardrail made to a call: `kind` is `rescued`, `repaired`, …, `detail` the form or method.

    Without a `tool` it concerns the response as a whole. It goes into logs and headers, so it never contains a value
    from a prompt or a response.
    """

    kind: Outcome
    tool: str
    detail: str


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """An answer as the client receives it."""

    text: str | None
    calls: tuple[ToolCall, ...]
    finish: str
    outcome: Outcome
    attempts: int
    interventions: tuple[Intervention, ...] = ()
    reasoning: str = ""
    """Text that turned out to be reasoning, in case it has not been sent as reasoning."""
    accepted_cases: tuple[Heuristic, ...] = ()
    """The heuristics that applied to the answer without correcting it."""
    is_plain_text: bool = False
    """Whether the model returned plain text although it could have called a tool."""
    is_before_failed_retry: bool = False
    """Whether this is an earlier response, delivered because the model server failed on the retry."""


@dataclass(frozen=True, slots=True)
class Accept:
    """The reply is acceptable and is delivered."""

    answer: FinalAnswer


@dataclass(frozen=True, slots=True)
class Retry:
    """The reply has a `fault` and is retried with `turn`."""

    turn: Turn
    fault: Fault
    tool: str = ""
    """The tool whose call has the fault, if it is the fault of a call."""
    reason: str = ""
    """The reason, for logs. Never contains a value from a prompt or a response."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The reply has a fault and no retry remains: `answer` is delivered, or the request fails with `error`."""

    fault: Fault
    answer: FinalAnswer | None
    error: ForgeError | None = None


Verdict: TypeAlias = Accept | Retry | GiveUp
