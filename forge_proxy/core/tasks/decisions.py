"""What a task does next, and the phases of its job that do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from forge_proxy.core.jobs.actions import Finished, RunPhase, Wait

Reset: TypeAlias = Literal["none", "worktree", "head"]
"""How an attempt begins: in the worktree as it is, in a fresh one (D15), or at its last commit (D23)."""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Begin an attempt of the current operation."""

    reset: Reset


@dataclass(frozen=True, slots=True)
class StartSubTasks:
    """Start the sub-tasks of the current step, and gather what they have written."""

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


def reset_of(decision: Decision) -> Reset:
    """Return what a decision resets before the next attempt."""
    return decision.reset if isinstance(decision, StartAttempt | StartSubTasks) else "none"


_GRACE = 5.0
"""Seconds after its own limit at which a phase is ended from outside."""
TIMEOUTS: dict[str, float] = {
    "await_turn": 30,
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


AWAIT_TURN = _phase("await_turn")
"""Waits for other tasks before the task works, and each time that it continues after a person has decided."""
PREPARE = _phase("prepare")
RECORD_BASELINE = _phase("record_baseline", "checks")
ASSEMBLE = _phase("assemble_context")
TEST_MODEL = RunPhase("test_model", "tasks", max_attempts=3)
"""Finds out in which form the model can respond, once for each model. The engine bounds it."""
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
