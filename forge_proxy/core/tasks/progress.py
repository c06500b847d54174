"""The progress of a task, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.tasks.models import Plan, PlanStep
from forge_proxy.core.tasks.operations import OperationName

Stage: TypeAlias = Literal["planning", "steps", "changes", "review", "halted", "ended"]
"""`changes`: a person has requested changes to the finished branch."""


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far a task is. The commits are those of the steps before `step`, in order."""

    max_attempts: int = 2
    is_planned: bool = False
    is_child: bool = False
    """Whether it is a sub-task: it commits nothing, and its parent decides what its failure means."""
    stage: Stage = "steps"
    plan: Plan | None = None
    step: int = 0
    operation: OperationName = "generate"
    attempt: int = 1
    """Attempts of the current operation, from 1."""
    violations: int = 0
    """Attempts of the current step that wrote outside their scope."""
    commits: tuple[str | None, ...] = ()
    """None for a step that was skipped."""
    halted_in: Stage = "steps"
    """The stage that continues after a halt."""
    attempts: int = 0
    """Attempts of all operations that have ended."""

    @classmethod
    def begin(cls, *, is_planned: bool, max_attempts: int, part: PlanStep | None = None) -> TaskProgress:
        """Return the progress of a new task or, with `part`, of a sub-task, which is a step of its own."""
        if part is not None:
            operation: OperationName = "gather" if part.sub_tasks else "generate"
            plan = Plan(explanation="", steps=(part,))
            return cls(max_attempts, is_child=True, plan=plan, operation=operation)
        if is_planned:
            return cls(max_attempts, is_planned=True, stage="planning", operation="plan")
        return cls(max_attempts)

    @property
    def current(self) -> PlanStep | None:
        """The current step of the plan; None if there is no plan, or the whole task is worked on."""
        if self.plan is None or self.stage in ("planning", "changes") or self.step >= len(self.plan.steps):
            return None
        return self.plan.steps[self.step]

    @property
    def step_count(self) -> int:
        """The number of steps; 1 without a plan."""
        return len(self.plan.steps) if self.plan is not None else 1
