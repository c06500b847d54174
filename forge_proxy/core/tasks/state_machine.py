"""What a task does next: a pure function of its progress and of what has happened (D2, D4).

The modes differ only in where a step comes from: a task without a plan is one step; a step with sub-tasks waits for its
child jobs before it is checked. Budgets bound every loop: what is left then is a person's decision (D9).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never

from forge_proxy.core.jobs.actions import Finished, RunPhase, Wait
from forge_proxy.core.tasks.models import Plan, PlanStep, SubTask
from forge_proxy.core.tasks.operations import OperationName

PLAN_ATTEMPTS = 2
"""Plans that the planner may make: the errors of the first one go back to it once."""
MAX_VIOLATIONS = 2
"""Attempts of a step that may write outside their scope: the second one halts the task (D8)."""

Stage: TypeAlias = Literal["planning", "steps", "changes", "review", "halted", "ended"]
"""`changes`: a person has requested changes of the finished branch."""
Reset: TypeAlias = Literal["none", "worktree", "head"]
"""How an attempt begins: in the worktree as it is, in a fresh one (D15), or at its last commit (D23)."""


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
    """Attempts of the present operation, from 1."""
    violations: int = 0
    """Attempts of the present step that wrote outside their scope."""
    commits: tuple[str | None, ...] = ()
    """None for a step that was skipped."""
    halted_in: Stage = "steps"
    """The stage that continues after a halt."""
    attempts: int = 0
    """Attempts of all operations that have ended."""

    @classmethod
    def begin(
        cls, *, is_planned: bool, max_attempts: int, is_child: bool = False, part: SubTask | None = None
    ) -> TaskProgress:
        """Return the progress of a new task or, with `part`, of a sub-task."""
        if part is not None:
            step = PlanStep(**{name: getattr(part, name) for name in SubTask.model_fields})
            plan = Plan(explanation="", steps=(step,))
            return cls(max_attempts, is_child=True, plan=plan)
        if is_planned:
            return cls(max_attempts, is_planned=True, is_child=is_child, stage="planning", operation="plan")
        return cls(max_attempts, is_child=is_child)

    @property
    def current(self) -> PlanStep | None:
        """The present step of the plan; None if there is no plan, or the whole task is worked on."""
        if self.plan is None or self.stage in ("planning", "changes") or self.step >= len(self.plan.steps):
            return None
        return self.plan.steps[self.step]

    @property
    def step_count(self) -> int:
        """The number of steps; 1 without a plan."""
        return len(self.plan.steps) if self.plan is not None else 1


# What happens


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
    """A person has answered to a halt."""

    answer: Literal["retry", "skip", "stop"]


@dataclass(frozen=True, slots=True)
class ChangesRequested:
    """A person has requested changes of the finished branch."""


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """A person wants the work from a step on to be done again."""

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

# What is done next


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Begin an attempt of the present operation."""

    reset: Reset


@dataclass(frozen=True, slots=True)
class StartSubTasks:
    """Start the sub-tasks of the present step, and gather what they have written."""

    reset: Reset


@dataclass(frozen=True, slots=True)
class AwaitReview:
    """Wait for a person who approves, rejects or requests changes (D7)."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Wait for a person who decides how to continue (D9)."""

    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """The task has ended."""

    status: Literal["completed", "merged", "rejected", "failed"]
    reason: str = ""


Decision: TypeAlias = StartAttempt | StartSubTasks | AwaitReview | Halt | End


class HappeningUnexpected(ValueError):
    """This cannot happen in the present stage: a fault of the caller."""


def first_decision(progress: TaskProgress) -> Decision:
    """Return what a task whose worktree is prepared does first."""
    return _begin_step(progress, "none")


def advance(progress: TaskProgress, happening: Happening) -> tuple[TaskProgress, Decision]:
    """Return the progress after what has happened, and what to do next. Raises `HappeningUnexpected`."""
    _check_stage(progress, happening)
    match happening:
        case PlanMade():
            after = replace(
                progress, plan=happening.plan, stage="steps", operation="generate", attempt=1, violations=0,
                attempts=progress.attempts + 1,
            )  # fmt: skip
            return after, _begin_step(after, "none")
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


def _begin_step(progress: TaskProgress, reset: Reset) -> Decision:
    step = progress.current
    if progress.stage == "steps" and step is not None and step.sub_tasks:
        return StartSubTasks(reset)
    return StartAttempt(reset)


def _succeed(progress: TaskProgress, commit: str | None) -> tuple[TaskProgress, Decision]:
    if progress.stage == "changes":
        return replace(progress, stage="review"), AwaitReview()
    if progress.is_child:
        return replace(progress, stage="ended"), End("completed")
    return _next_step(replace(progress, commits=(*progress.commits, commit)))


def _next_step(progress: TaskProgress) -> tuple[TaskProgress, Decision]:
    after = replace(progress, step=progress.step + 1, operation="generate", attempt=1, violations=0)
    if after.step < after.step_count:
        return after, _begin_step(after, "none")
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
    operation = progress.operation if progress.stage == "planning" else "generate"
    after = replace(progress, operation=operation, attempt=progress.attempt + 1, violations=violations)
    return after, _begin_step(after, _reset_of(after))


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
            operation: OperationName = "plan" if before.stage == "planning" else "generate"
            before = replace(before, operation=operation)
            return before, _begin_step(before, _reset_of(before))
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
    after = replace(
        progress, stage="steps", step=step, operation="generate", attempt=1, violations=0,
        commits=progress.commits[:step],
    )  # fmt: skip
    return after, _begin_step(after, "head")


# As actions of jobs

_GRACE = 5.0
"""Seconds after its own limit at which a phase is ended from outside."""
TIMEOUTS: dict[str, float] = {
    "prepare": 60,
    "record_baseline": 600,
    "assemble_context": 30,
    "write_output": 30,
    "validate_output": 600,
    "evaluate_transition": 10,
    "start_sub_tasks": 30,
    "gather": 30,
    "continue": 30,
}
"""Seconds of each phase. The engine bounds `call_llm`."""


def _phase(name: str, queue: str = "tasks") -> RunPhase:
    return RunPhase(name, queue, timeout=TIMEOUTS[name] + _GRACE, max_attempts=3)


PREPARE = _phase("prepare")
RECORD_BASELINE = _phase("record_baseline", "checks")
ASSEMBLE = _phase("assemble_context")
CALL = RunPhase("call_llm", "tasks", max_attempts=3)
WRITE = _phase("write_output")
VALIDATE = _phase("validate_output", "checks")
EVALUATE = _phase("evaluate_transition")
START_SUB_TASKS = _phase("start_sub_tasks")
GATHER = _phase("gather")
CONTINUE = _phase("continue")
"""Runs what a person has decided, and what is left to do at the end."""


def to_action(decision: Decision) -> RunPhase | Wait | Finished:
    """Return a decision as the next action of the job."""
    match decision:
        case StartAttempt():
            return ASSEMBLE
        case StartSubTasks():
            return START_SUB_TASKS
        case AwaitReview():
            return Wait(None, CONTINUE, "requires_action")
        case Halt():
            return Wait(None, CONTINUE, "halted")
        case End():
            return Finished("failed" if decision.status == "failed" else "completed")
        case _:
            assert_never(decision)
