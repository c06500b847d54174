"""Which tasks another one waits for: those that it is to run after, and those that may write the same files.

No other task may write within the scope of a task that works. Among those that wait for a scope, the one that was
submitted first is next; a task that waits for its predecessors lets others go first, because a person may have to
decide about them. A task that works waits for nothing here, and the others only wait for it or for earlier ones: there
is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.tasks.scopes import WriteScope

PredecessorEnd: TypeAlias = Literal["merged", "rejected", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class ScopeClaim:
    """What a task that is not finished claims of its repository."""

    task_id: str
    submitted_at: float
    repository: str
    scope: WriteScope
    is_working: bool
    """Whether it has its turn, and waits for no person."""
    is_next: bool
    """Whether it waits for its turn, and for no predecessor."""

    def conflicts_with(self, other: ScopeClaim) -> bool:
        """Whether both may write the same file."""
        return self.repository == other.repository and self.scope.overlaps(other.scope)

    def precedes(self, other: ScopeClaim) -> bool:
        """Whether it was submitted earlier."""
        return (self.submitted_at, self.task_id) < (other.submitted_at, other.task_id)


def find_blockers(own: ScopeClaim, others: Iterable[ScopeClaim]) -> tuple[str, ...]:
    """Return the tasks for which a task that has no predecessors has to wait, oldest first."""
    blockers = [
        other
        for other in others
        if other.task_id != own.task_id
        and (other.is_working or (other.is_next and other.precedes(own)))
        and other.conflicts_with(own)
    ]
    return tuple(claim.task_id for claim in sorted(blockers, key=lambda claim: (claim.submitted_at, claim.task_id)))


def describe_missed(ends: Iterable[tuple[str, PredecessorEnd]]) -> str | None:
    """Return why a task cannot begin after its predecessors; None if all of them were merged."""
    missed = [f"the task {task_id} was not merged: it {_ENDS[end]}" for task_id, end in ends if end != "merged"]
    return None if not missed else "; ".join(missed) + "; answer `retry` to run this task anyway"


_ENDS = {"rejected": "was rejected", "failed": "failed", "cancelled": "was cancelled"}
