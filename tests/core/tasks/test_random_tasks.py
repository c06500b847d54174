"""Random tasks from their first decision to their end: plans, outcomes of attempts, and what people decide about them.

The rules are checked from outside, after each event: budgets are kept, a step is committed once, nothing is done after
a failed step, and every task ends or waits for a person (D2, D8, D9, D15, D16, D23, D24).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jobs.actions import Finished, RunPhase, Wait
from forge_proxy.core.tasks.decisions import (
    AwaitReview,
    Decision,
    End,
    Halt,
    StartAttempt,
    StartSubTasks,
    to_action,
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
from forge_proxy.core.tasks.models import Plan, PlanStep, SubTask
from forge_proxy.core.tasks.progress import TaskProgress
from forge_proxy.core.tasks.state_machine import advance, first_decision
from tests.properties import examples

SUB_TASKS = tuple(SubTask(id=name, description="d", target_files=(name,)) for name in "xy")
STEPS = st.builds(
    PlanStep, id=st.just("s"), description=st.just("d"), target_files=st.just(("f",)),
    sub_tasks=st.sampled_from([(), SUB_TASKS]),
)  # fmt: skip
PLANS = st.builds(Plan, explanation=st.just(""), steps=st.lists(STEPS, min_size=1, max_size=4).map(tuple))
BEGINNINGS = st.builds(
    TaskProgress.begin, is_planned=st.booleans(), max_attempts=st.integers(1, 4), part=st.none() | STEPS
)
MAX_DECISIONS = 6
"""Decisions after which a person stops, rejects or merges the task."""


@dataclass
class Watcher:
    """Follows a task, and counts what it has done by the rules."""

    progress: TaskProgress
    decision: Decision
    failed: int = 0
    violations: int = 0
    commits: list[str | None] = field(default_factory=list[str | None])
    made: int = 0
    """Commits of all attempts, also of those that a person has discarded."""
    decisions: int = 0
    worked_in: str = ""
    """The stage of the latest attempt."""

    @property
    def has_sub_tasks(self) -> bool:
        """Whether the step that is worked on has sub-tasks."""
        plan, stage = self.progress.plan, self.progress.stage
        return plan is not None and stage == "steps" and bool(plan.steps[len(self.commits)].sub_tasks)

    def begin(self) -> None:
        """Check the first decision."""
        self._check_start("none", is_new=True)
        self._check_stage()

    def happens(self, happening: Happening) -> None:
        """Advance the task, and check the rules."""
        before = self.progress
        self.progress, self.decision = advance(before, happening)
        match happening:
            case PlanMade():
                self._check_start("none", is_new=True)
            case AttemptSucceeded():
                self._check_success(before, happening.commit)
            case AttemptFailed():
                self._check_failure(before, happening)
            case AttemptImpossible():
                assert self._waits_for_a_decision()
            case ConflictsFound():
                assert self.decision == StartAttempt("none")
                assert self.progress.operation == "resolve_conflicts"
            case _:
                self._check_person(before, happening)
        ran = isinstance(happening, PlanMade | AttemptSucceeded | AttemptFailed | AttemptImpossible)
        assert self.progress.attempts == before.attempts + ran
        assert self.progress.commits == tuple(self.commits)
        made = [commit for commit in self.commits if commit is not None]
        assert len(made) == len({*made})  # a commit belongs to one step
        self._check_stage()

    def _check_success(self, before: TaskProgress, commit: str | None) -> None:
        self.made += 1
        if before.is_child:
            assert self.decision == End("completed")
        elif before.stage == "changes":
            assert self.decision == AwaitReview()
        else:
            self.commits.append(commit)
            self._check_next_step()

    def _check_next_step(self) -> None:
        if len(self.commits) < self.progress.step_count:
            self._check_start("none", is_new=True)
        elif any(self.commits):
            assert self.decision == AwaitReview()
        else:
            assert self.decision == End("failed", "all steps were skipped")

    def _check_failure(self, before: TaskProgress, failed: AttemptFailed) -> None:
        assert before.stage == self.worked_in
        self.failed += 1
        self.violations += failed.is_violation
        limit = 2 if before.stage == "planning" else before.max_attempts
        if self.failed == limit or self.violations == 2:
            assert self._waits_for_a_decision()
            return
        is_single = before.stage == "steps" and not before.is_planned
        self._check_start("worktree" if is_single else "head", is_new=False)

    def _check_person(self, before: TaskProgress, happening: Happening) -> None:
        self.decisions += 1
        match happening:
            case Answered(answer="stop"):
                assert self.decision == End("failed", "stopped by a person")
            case ReviewEnded():
                assert self.decision == End(happening.status)
            case Answered(answer="skip") if self.worked_in == "changes":
                assert self.decision == AwaitReview()
            case Answered(answer="skip"):
                self.commits.append(None)
                self._check_next_step()
            case RetryRequested() if not (before.is_planned and before.plan is None):
                del self.commits[happening.step :]
                self._check_start("head", is_new=True)
            case _:
                is_single = not before.is_planned and before.stage == "halted" and self.worked_in == "steps"
                self._check_start("worktree" if is_single else "head", is_new=True)

    def _check_start(self, reset: str, *, is_new: bool) -> None:
        """Check that an attempt begins: of a new step, or after a decision of a person, with a whole budget."""
        if is_new:
            self.failed = self.violations = 0
        assert self.progress.attempt == self.failed + 1
        assert self.progress.violations == self.violations
        kind = StartSubTasks if self.has_sub_tasks else StartAttempt
        assert self.decision == kind(reset)  # pyright: ignore[reportArgumentType]
        files = "gather" if self.has_sub_tasks else "generate"
        assert self.progress.operation == ("plan" if self.progress.stage == "planning" else files)

    def _waits_for_a_decision(self) -> bool:
        """Whether a person or, for a sub-task, its parent decides what comes next."""
        if self.progress.is_child:
            return isinstance(self.decision, End) and self.decision.status == "failed"
        return isinstance(self.decision, Halt)

    def _check_stage(self) -> None:
        """Check that the task works, waits for a person, or has ended: what its job does, and its stage."""
        action, stage = to_action(self.decision), self.progress.stage
        if isinstance(self.decision, End):
            assert isinstance(action, Finished)
            assert stage == "ended"
        elif isinstance(self.decision, AwaitReview | Halt):
            assert isinstance(action, Wait)
            assert stage == ("review" if isinstance(self.decision, AwaitReview) else "halted")
        else:
            assert isinstance(action, RunPhase)
            assert stage in ("planning", "steps", "changes")
            self.worked_in = stage
        if stage == "steps" and not self.progress.is_child:
            assert self.progress.step == len(self.commits)  # each step before it was committed, or skipped by a person


def draw_outcome(watcher: Watcher, plan: Plan, data: st.DataObject) -> Happening:
    """Draw how the attempt that was started ends."""
    progress = watcher.progress
    commit = None if progress.is_child else f"c{watcher.made}"
    is_planning = progress.stage == "planning"
    outcomes: list[Happening] = [PlanMade(plan) if is_planning else AttemptSucceeded(commit)]
    outcomes += [AttemptFailed("f"), AttemptFailed("outside", is_violation=True), AttemptImpossible("?")]
    if isinstance(watcher.decision, StartSubTasks):
        outcomes.append(ConflictsFound(("f",)))
    return data.draw(st.sampled_from(outcomes))


def draw_decision(watcher: Watcher, data: st.DataObject) -> Happening:
    """Draw what a person decides about a task that waits."""
    progress, is_last = watcher.progress, watcher.decisions >= MAX_DECISIONS
    steps = [RetryRequested(number) for number in range(min(len(watcher.commits) + 1, progress.step_count))]
    if progress.stage == "review":
        ends: list[Happening] = [ReviewEnded("merged"), ReviewEnded("rejected")]
        return data.draw(st.sampled_from(ends if is_last else [*ends, ChangesRequested(), *steps]))
    answers: list[Happening] = [Answered("stop")]
    if not is_last:
        skips = [Answered("skip")] if watcher.worked_in != "planning" else []
        answers = [Answered("retry"), *skips, *answers, *steps]
    return data.draw(st.sampled_from(answers))


@examples(400)
@given(BEGINNINGS, PLANS, st.data())
def test_d2_a_random_task_keeps_every_rule_until_it_ends(
    progress: TaskProgress, plan: Plan, data: st.DataObject
) -> None:
    watcher = Watcher(progress, first_decision(progress))
    watcher.begin()

    while not isinstance(watcher.decision, End):
        if isinstance(watcher.decision, AwaitReview | Halt):
            assert not progress.is_child  # nobody decides about a sub-task
            watcher.happens(draw_decision(watcher, data))
        else:
            watcher.happens(draw_outcome(watcher, plan, data))
