"""What `judge` decides, and the final form of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.messages import ToolCall


@dataclass(frozen=True, slots=True)
class Intervention:
    """One thing that was done to a call: `kind` says what (`rescued`, `repaired`), `detail` from which form or how.

    Without a `tool` it is about the answer as a whole, and `detail` says all. Goes into logs and headers, so it never
    holds a value.
    """

    kind: Outcome
    tool: str
    detail: str


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """An answer as the caller gets it."""

    text: str | None
    calls: tuple[ToolCall, ...]
    finish: str
    outcome: Outcome
    attempts: int
    marks: tuple[Intervention, ...] = ()
    thought: str = ""
    """Text that turned out to be thought, should it not have left as such."""
    bare_text: bool = False
    """Whether the model answered in text where it might have called a tool."""
    is_before_failed_retry: bool = False
    """Whether the model server failed on a retry, so that this is the response before it."""


@dataclass(frozen=True, slots=True)
class Accept:
    """The reply is an answer."""

    settled: FinalAnswer


@dataclass(frozen=True, slots=True)
class Retry:
    """The reply is none: ask again with `turn`, because of `fault`."""

    turn: Turn
    fault: Fault
    tool: str = ""
    """The tool whose call was at fault, if one was."""
    reason: str = ""
    """Why, for logs: never a value."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The reply is no good answer and the budget is spent: hand out `settled`, or fail with `error`."""

    fault: Fault
    settled: FinalAnswer | None
    error: ForgeError | None = None


Verdict: TypeAlias = Accept | Retry | GiveUp
