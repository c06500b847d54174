"""What a task does next: a pure function of its progress and of what has happened (D2, D4).

The modes differ only in where a step comes from: a task without a plan is one step; a step with sub-tasks waits for its
child jobs before it is checked. Budgets bound every loop: when one is exhausted, a person decides (D9).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, assert_never

from forge_proxy.core.tasks.decisions import (
    AwaitReview,
    Decision,
    End,
    Halt,
    Reset,
    StartAttempt,
    StartSubTasks,
)
from forge_proxy.core.tasks.happenings import (
    Answered,
    AttemptFailed,
    AttemptImpossible,
    AttemptSucceeded,
    ChangesRequested,
    ConflictsFound,
    Happening,
    PlanMade,
    RetryRequested,
    ReviewEnded,
)
from forge_proxy.core.tasks.operations import OperationName
from forge_proxy.core.tasks.progress import Stage, TaskProgress

PLAN_ATTEMPTS = 2
"""Plans that the planner may make: the errors of the first one go back to it once."""
MAX_VIOLATIONS = 2
"""Attempts of a step that may write outside their scope: the second one halts the task (D8)."""


class HappeningUnexpected(ValueError):
    """What has happened is not possible in the current stage: an error of the caller."""


def first_decision(progress: TaskProgress) -> Decision:
    """Return what a task whose worktree is prepared does first."""
    return _decide_start(progress, "none")


def advance(progress: TaskProgress, happening: Happening) -> tuple[TaskProgress, Decision]:
    """Return the progress after what has happened, and what to do next. Raises `HappeningUnexpected`."""
    _check_stage(progress, happening)
    match happening:
        case PlanMade():
            after = replace(
                progress, plan=happening.plan, stage="steps", attempt=1, violations=0, attempts=progress.attempts + 1
            )
            return _begin_step(after, "none")
        case AttemptSucceeded():
            return _succeed(replace(progress, attempts=progress.attempts + 1), happening.commit)
        case AttemptFailed():
            return _fail(replace(progress, attempts=progress.attempts + 1), happening)
        case AttemptImpossible():
            return _halt(replace(progress, attempts=progress.attempts + 1), happening.reason)
        case ConflictsFound():
            after = replace(progress, operation="resolve_conflicts")
            return after, StartAttempt("none")
        case Answered():
            return _continue(progress, happening.answer)
        case ChangesRequested():
            after = replace(progress, stage="changes", operation="generate", attempt=1, violations=0)
            return after, StartAttempt("head")
        case RetryRequested():
            return _retry_from(progress, happening.step)
        case ReviewEnded():
            return replace(progress, stage="ended"), End(happening.status)
        case _:
            assert_never(happening)


_STAGES: dict[type[Happening], tuple[Stage, ...]] = {
    PlanMade: ("planning",),
    AttemptSucceeded: ("steps", "changes"),
    AttemptFailed: ("planning", "steps", "changes"),
    AttemptImpossible: ("planning", "steps", "changes"),
    ConflictsFound: ("steps",),
    Answered: ("halted",),
    ChangesRequested: ("review",),
    RetryRequested: ("review", "halted"),
    ReviewEnded: ("review",),
}


def _check_stage(progress: TaskProgress, happening: Happening) -> None:
    if progress.stage not in _STAGES[type(happening)]:
        raise HappeningUnexpected(f"{type(happening).__name__} in the stage {progress.stage}")


def _begin_step(progress: TaskProgress, reset: Reset) -> tuple[TaskProgress, Decision]:
    """Begin an attempt of the current stage: with the sub-tasks of the step, if it has any."""
    operation: OperationName = "plan" if progress.stage == "planning" else "generate"
    if (step := progress.current) is not None and step.sub_tasks:
        operation = "gather"
    after = replace(progress, operation=operation)
    return after, _decide_start(after, reset)


def _decide_start(progress: TaskProgress, reset: Reset) -> Decision:
    return StartSubTasks(reset) if progress.operation == "gather" else StartAttempt(reset)


def _succeed(progress: TaskProgress, commit: str | None) -> tuple[TaskProgress, Decision]:
    if progress.stage == "changes":
        return replace(progress, stage="review"), AwaitReview()
    if progress.is_child:
        return replace(progress, stage="ended"), End("completed")
    return _next_step(replace(progress, commits=(*progress.commits, commit)))


def _next_step(progress: TaskProgress) -> tuple[TaskProgress, Decision]:
    after = replace(progress, step=progress.step + 1, operation="generate", attempt=1, violations=0)
    if after.step < after.step_count:
        return _begin_step(after, "none")
    if not any(after.commits):
        return replace(after, stage="ended"), End("failed", "all steps were skipped")
    return replace(after, stage="review"), AwaitReview()


def _fail(progress: TaskProgress, failed: AttemptFailed) -> tuple[TaskProgress, Decision]:
    violations = progress.violations + failed.is_violation
    if violations >= MAX_VIOLATIONS:
        return _halt(progress, f"{failed.reason} (twice)")
    limit = PLAN_ATTEMPTS if progress.stage == "planning" else progress.max_attempts
    if progress.attempt >= limit:
        return _halt(progress, f"{progress.attempt} attempts failed; the last one: {failed.reason}")
    after = replace(progress, attempt=progress.attempt + 1, violations=violations)
    return _begin_step(after, _reset_of(after))


def _reset_of(progress: TaskProgress) -> Reset:
    """Return how a further attempt begins: from a clean state, but with the commits of the steps before it."""
    is_single = not progress.is_planned and progress.stage == "steps"
    return "worktree" if is_single else "head"


def _halt(progress: TaskProgress, reason: str) -> tuple[TaskProgress, Decision]:
    if progress.is_child:
        return replace(progress, stage="ended"), End("failed", reason)
    return replace(progress, stage="halted", halted_in=progress.stage), Halt(reason)


def _continue(progress: TaskProgress, answer: Literal["retry", "skip", "stop"]) -> tuple[TaskProgress, Decision]:
    before = replace(progress, stage=progress.halted_in, attempt=1, violations=0)
    match answer:
        case "retry":
            return _begin_step(before, _reset_of(before))
        case "skip":
            if before.stage == "changes":
                return replace(before, stage="review"), AwaitReview()
            if before.stage == "planning":
                raise HappeningUnexpected("a plan cannot be skipped")
            return _next_step(replace(before, commits=(*before.commits, None)))
        case "stop":
            return replace(before, stage="ended"), End("failed", "stopped by a person")
        case _:
            assert_never(answer)


def _retry_from(progress: TaskProgress, step: int) -> tuple[TaskProgress, Decision]:
    if not 0 <= step < progress.step_count:
        raise HappeningUnexpected(f"there is no step {step + 1}; the task has {progress.step_count}")
    if progress.is_planned and progress.plan is None:
        return _continue(progress, "retry")
    if step > len(progress.commits):
        raise HappeningUnexpected(f"step {step + 1} comes after step {len(progress.commits) + 1}, which has not ended")
    after = replace(progress, stage="steps", step=step, attempt=1, violations=0, commits=progress.commits[:step])
    return _begin_step(after, "head")
