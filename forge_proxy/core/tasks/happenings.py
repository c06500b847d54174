"""What happens to a task: outcomes of its attempts, and decisions of people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.tasks.models import Plan


@dataclass(frozen=True, slots=True)
class PlanMade:
    """The planner has made a valid plan."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class AttemptSucceeded:
    """The checks have passed. `commit` is that of the step; None for a sub-task."""

    commit: str | None


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt did not succeed, for a reason that another one may not have."""

    reason: str
    is_violation: bool = False
    """Whether it wrote outside its scope."""


@dataclass(frozen=True, slots=True)
class AttemptImpossible:
    """No further attempt could succeed, or what happened cannot be classified (D9)."""

    reason: str


@dataclass(frozen=True, slots=True)
class ConflictsFound:
    """Sub-tasks have written different content to these files."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A person has answered a halted task."""

    answer: Literal["retry", "skip", "stop"]


@dataclass(frozen=True, slots=True)
class ChangesRequested:
    """A person has requested changes to the finished branch."""


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """A person has requested that the work from a step on is repeated."""

    step: int


@dataclass(frozen=True, slots=True)
class ReviewEnded:
    """A person has approved the branch, which is merged, or has rejected it."""

    status: Literal["merged", "rejected"]


Happening: TypeAlias = (
    PlanMade
    | AttemptSucceeded
    | AttemptFailed
    | AttemptImpossible
    | ConflictsFound
    | Answered
    | ChangesRequested
    | RetryRequested
    | ReviewEnded
)
