"""What a task does next, for random plans and outcomes (D2, D9, D15, D16, D23, D25)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jobs.actions import Finished, RunPhase, Wait
from forge_proxy.core.tasks.decisions import (
    CONTINUE,
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
    PlanMade,
    RetryRequested,
    ReviewEnded,
)
from forge_proxy.core.tasks.models import Plan, PlanStep, SubTask
from forge_proxy.core.tasks.progress import TaskProgress
from forge_proxy.core.tasks.state_machine import (
    MAX_VIOLATIONS,
    PLAN_ATTEMPTS,
    HappeningUnexpected,
    advance,
    first_decision,
)


def plan_of(*fan_outs: bool) -> Plan:
    """A plan with a step for each; True: with two sub-tasks."""
    return Plan(explanation="", steps=tuple(step_of(number, is_fan) for number, is_fan in enumerate(fan_outs)))


def step_of(number: int, is_fan: bool) -> PlanStep:
    subs = tuple(SubTask(id=f"t{one}", description="d", target_files=(f"f{number}{one}",)) for one in range(2))
    return PlanStep(id=f"s{number}", description="d", target_files=(f"f{number}",), sub_tasks=subs if is_fan else ())


def planned(*fan_outs: bool) -> tuple[TaskProgress, Decision]:
    """A task after its planning."""
    return advance(TaskProgress.begin(is_planned=True, max_attempts=2), PlanMade(plan_of(*fan_outs)))


def test_s_modes_a_single_step_is_reviewed_after_its_success() -> None:
    progress = TaskProgress.begin(is_planned=False, max_attempts=2)

    assert first_decision(progress) == StartAttempt("none")
    after, decision = advance(progress, AttemptSucceeded("c1"))

    assert (after.stage, after.commits, decision) == ("review", ("c1",), AwaitReview())


def test_d15_a_single_step_is_retried_in_a_fresh_worktree_and_then_halts() -> None:
    progress, decision = advance(TaskProgress.begin(is_planned=False, max_attempts=2), AttemptFailed("lint"))
    assert decision == StartAttempt("worktree")

    progress, decision = advance(progress, AttemptFailed("tests"))

    assert decision == Halt("2 attempts failed; the last one: tests")
    assert to_action(decision) == Wait(None, CONTINUE, "halted")


def test_d23_a_planned_step_is_retried_at_its_last_commit() -> None:
    progress, _ = planned(False, False)
    progress, decision = advance(progress, AttemptSucceeded("c1"))
    assert decision == StartAttempt("none")

    progress, decision = advance(progress, AttemptFailed("lint"))

    assert (decision, progress.step, progress.commits) == (StartAttempt("head"), 1, ("c1",))


def test_d24_the_errors_of_a_plan_go_back_to_the_planner_once() -> None:
    progress = TaskProgress.begin(is_planned=True, max_attempts=5)
    progress, decision = advance(progress, AttemptFailed("steps[0]: …"))
    assert (decision, progress.operation) == (StartAttempt("head"), "plan")

    _, decision = advance(progress, AttemptFailed("steps[0]: …"))

    assert isinstance(decision, Halt)


def test_d8_writing_outside_the_scope_twice_halts() -> None:
    progress = TaskProgress.begin(is_planned=False, max_attempts=5)
    progress, decision = advance(progress, AttemptFailed("outside", is_violation=True))
    assert decision == StartAttempt("worktree")

    _, decision = advance(progress, AttemptFailed("outside", is_violation=True))

    assert isinstance(decision, Halt)


def test_d9_what_cannot_be_classified_halts_at_once() -> None:
    _, decision = advance(
        TaskProgress.begin(is_planned=False, max_attempts=5), AttemptImpossible("a new kind of error")
    )

    assert decision == Halt("a new kind of error")


def test_s_fanout_a_step_with_sub_tasks_starts_them_and_resolves_conflicts() -> None:
    progress, decision = planned(True)
    assert decision == StartSubTasks("none")

    progress, decision = advance(progress, ConflictsFound(("a",)))
    assert (progress.operation, decision) == ("resolve_conflicts", StartAttempt("none"))
    progress, decision = advance(progress, AttemptFailed("lint"))

    assert (progress.operation, decision) == ("gather", StartSubTasks("head"))


def test_d16_a_sub_task_ends_without_a_commit_or_a_halt() -> None:
    part = PlanStep(id="a", description="d", target_files=("f",))
    child = TaskProgress.begin(is_planned=False, max_attempts=1, part=part)

    assert advance(child, AttemptSucceeded(None))[1] == End("completed")
    assert advance(child, AttemptFailed("lint"))[1] == End("failed", "1 attempts failed; the last one: lint")


def test_d17_a_sub_task_with_sub_tasks_starts_them_itself() -> None:
    child = TaskProgress.begin(is_planned=False, max_attempts=2, part=step_of(0, is_fan=True))
    assert first_decision(child) == StartSubTasks("none")

    after, decision = advance(child, AttemptFailed("lint"))

    assert (after.operation, decision) == ("gather", StartSubTasks("worktree"))
    assert advance(after, AttemptSucceeded(None))[1] == End("completed")


def test_s_fanout_a_halted_step_is_retried_with_its_sub_tasks() -> None:
    progress, _ = planned(True)
    progress, decision = advance(progress, AttemptImpossible("sub-task a: …"))
    assert decision == Halt("sub-task a: …")

    after, decision = advance(progress, Answered("retry"))

    assert (after.operation, decision) == ("gather", StartSubTasks("head"))


@pytest.mark.parametrize(
    ("answer", "decision"),
    [("retry", StartAttempt("head")), ("skip", StartAttempt("none")), ("stop", End("failed", "stopped by a person"))],
)
def test_d9_a_person_continues_a_halted_task(answer: str, decision: Decision) -> None:
    progress, _ = planned(False, False)
    progress, _ = advance(progress, AttemptImpossible("?"))

    after, decided = advance(progress, Answered(answer))  # pyright: ignore[reportArgumentType]

    assert decided == decision
    assert after.attempt == 1


def test_a_task_of_which_all_steps_are_skipped_has_failed() -> None:
    progress, _ = advance(TaskProgress.begin(is_planned=False, max_attempts=1), AttemptFailed("lint"))

    _, decision = advance(progress, Answered("skip"))

    assert decision == End("failed", "all steps were skipped")


def test_s_review_changes_lead_to_another_review() -> None:
    progress, _ = advance(TaskProgress.begin(is_planned=False, max_attempts=2), AttemptSucceeded("c1"))
    progress, decision = advance(progress, ChangesRequested())
    assert decision == StartAttempt("head")

    progress, decision = advance(progress, AttemptSucceeded("c2"))

    assert decision == AwaitReview()
    assert advance(progress, ReviewEnded("merged"))[1] == End("merged")


def test_a_retry_from_a_step_keeps_the_commits_before_it() -> None:
    progress, _ = planned(False, False)
    for commit in ("c1", "c2"):
        progress, _ = advance(progress, AttemptSucceeded(commit))

    after, decision = advance(progress, RetryRequested(1))

    assert (after.step, after.commits, decision) == (1, ("c1",), StartAttempt("head"))
    with pytest.raises(HappeningUnexpected, match="no step 3"):
        advance(progress, RetryRequested(2))


def test_d23_a_retry_begins_with_no_step_after_one_that_has_failed() -> None:
    progress, _ = planned(False, False, False)
    progress, _ = advance(progress, AttemptSucceeded("c1"))
    progress, _ = advance(progress, AttemptImpossible("?"))

    with pytest.raises(HappeningUnexpected, match="step 3 comes after step 2, which has not ended"):
        advance(progress, RetryRequested(2))
    assert advance(progress, RetryRequested(1))[1] == StartAttempt("head")


def test_an_outcome_after_the_end_is_a_fault_of_the_caller() -> None:
    progress, _ = advance(TaskProgress.begin(is_planned=False, max_attempts=2), AttemptSucceeded("c1"))

    with pytest.raises(HappeningUnexpected, match="AttemptFailed in the stage review"):
        advance(progress, AttemptFailed("late"))


@given(
    st.booleans(),
    st.integers(1, 4),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.data(),
)
def test_d2_every_task_ends_or_waits_for_somebody_within_its_budget(
    is_planned: bool, max_attempts: int, fan_outs: list[bool], data: st.DataObject
) -> None:
    progress = TaskProgress.begin(is_planned=is_planned, max_attempts=max_attempts)
    decision = first_decision(progress)
    plan, made, committed = plan_of(*fan_outs), 0, list[str]()
    steps = len(fan_outs) if is_planned else 1

    while not isinstance(decision, AwaitReview | Halt | End):
        assert isinstance(to_action(decision), RunPhase)
        made += 1
        before = progress
        outcomes = ["ok", "failed", "violation", "impossible"]
        if isinstance(decision, StartSubTasks):
            outcomes.append("conflict")
        match data.draw(st.sampled_from(outcomes)):
            case "ok" if progress.stage == "planning":
                progress, decision = advance(progress, PlanMade(plan))
            case "ok":
                commit = f"c{len(committed)}"
                committed.append(f"{before.step}")
                progress, decision = advance(progress, AttemptSucceeded(commit))
                assert progress.step == before.step + 1
            case "conflict":
                progress, decision = advance(progress, ConflictsFound(("f",)))
            case "impossible":
                progress, decision = advance(progress, AttemptImpossible("?"))
            case outcome:
                progress, decision = advance(progress, AttemptFailed("f", is_violation=outcome == "violation"))
                assert progress.step == before.step

    assert made <= PLAN_ATTEMPTS + 2 * steps * max_attempts  # twice: each attempt may have conflicts
    assert len(committed) == len(set(committed)) == len(progress.commits)  # each step is committed once
    assert isinstance(decision, Halt) or len(committed) == steps  # nothing after a failed step
    assert isinstance(to_action(decision), Wait | Finished)
    assert MAX_VIOLATIONS == 2


@given(st.lists(st.sampled_from(["ok", "failed", "retry", "skip", "stop", "changes", "from"]), max_size=40))
def test_any_sequence_of_outcomes_and_answers_is_either_decided_or_unexpected(sequence: list[str]) -> None:
    progress = replace(TaskProgress.begin(is_planned=True, max_attempts=2))
    for word in sequence:
        happening = {
            "ok": PlanMade(plan_of(False, True)) if progress.stage == "planning" else AttemptSucceeded("c"),
            "failed": AttemptFailed("f"),
            "changes": ChangesRequested(),
            "from": RetryRequested(0),
        }.get(word) or Answered(word)  # pyright: ignore[reportArgumentType]
        try:
            progress, decision = advance(progress, happening)
        except HappeningUnexpected:
            continue
        assert to_action(decision)
        waits = isinstance(decision, AwaitReview | Halt | End)
        assert waits == (progress.stage in ("review", "halted", "ended"))
