"""The kind of jobs that are tasks: five phases for each operation, saved one by one, and the waits for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jobs.actions import Finished, NextAction, RunPhase, Wait
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound, JobNotReadable
from forge_proxy.core.jobs.outcomes import write_error
from forge_proxy.core.jobs.records import NewEvent, StoredJob
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.tasks.decisions import AWAIT_TURN, CALL, CONTINUE, PREPARE, START_SUB_TASKS, TIMEOUTS, AwaitReview
from forge_proxy.core.tasks.errors import GitFailed
from forge_proxy.core.tasks.happenings import AttemptImpossible
from forge_proxy.core.tasks.ids import branch_of, is_sub_task_id
from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.tasks.assembling import assemble_context
from forge_proxy.tasks.attempt_errors import AttemptError
from forge_proxy.tasks.batched_calls import discard_batches
from forge_proxy.tasks.calling import call_llm, test_model
from forge_proxy.tasks.evaluating import decide, evaluate_transition, fail_attempt, prepare_wait
from forge_proxy.tasks.fanning_out import start_sub_tasks
from forge_proxy.tasks.gathering import gather
from forge_proxy.tasks.phase_run import PhaseRun, TaskDeps
from forge_proxy.tasks.ports import BatchedRequestFailed
from forge_proxy.tasks.preparing import prepare, record_baseline
from forge_proxy.tasks.results import write_outcome
from forge_proxy.tasks.turns import KIND, await_turn
from forge_proxy.tasks.validating import validate_output
from forge_proxy.tasks.writing import write_output

_PHASES: Mapping[str, Callable[[PhaseRun], Awaitable[NextAction]]] = {
    "await_turn": await_turn,
    "prepare": prepare,
    "record_baseline": record_baseline,
    "assemble_context": assemble_context,
    "test_model": test_model,
    "call_llm": call_llm,
    "write_output": write_output,
    "validate_output": validate_output,
    "evaluate_transition": evaluate_transition,
    "start_sub_tasks": start_sub_tasks,
    "gather": gather,
}
_SCHEDULER_ERRORS = (StoreUnavailable, JobNotFound, JobConflict, JobNotReadable, Cancelled)
"""Errors that the scheduler handles."""


class TaskHandler:
    """`jobs.ports.JobHandler` of tasks."""

    kind = KIND

    def __init__(self, deps: TaskDeps, discard: Callable[[PhaseRun], None]) -> None:
        """`discard` is called with a cancelled task, and removes what it has left (`discard_leftovers`)."""
        self._deps = deps
        self._discard = discard

    def first_action(self, job: StoredJob) -> RunPhase:
        """See `JobHandler`. Sub-tasks share the turn of their parent."""
        return PREPARE if is_sub_task_id(job.id) else AWAIT_TURN

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """Run a phase. Its last failure halts the task: a person decides (D9). See `JobHandler`."""
        try:
            async with asyncio.timeout(TIMEOUTS.get(phase.phase)):
                return await self._run(PhaseRun(writer, self._deps), phase)
        except _SCHEDULER_ERRORS:
            raise
        except AttemptError as error:
            writer.take_staged()
            return await fail_attempt(PhaseRun(writer, self._deps), error.reason, is_final=error.is_final)
        except BatchedRequestFailed as failed:  # after several batches
            writer.take_staged()
            return await _halt(PhaseRun(writer, self._deps), phase, failed.error)
        except Exception as error:
            is_passing = isinstance(error, ForgeError | TimeoutError | OSError)
            if is_passing and phase.attempt < phase.max_attempts:
                raise
            if not isinstance(error, ForgeError | TimeoutError):
                self._deps.report(writer.job.id, error)
            writer.take_staged()
            return await _halt(PhaseRun(writer, self._deps), phase, error)

    def on_cancel(self, writer: JobWriter) -> None:
        """See `JobHandler`."""
        self._discard(PhaseRun(writer, self._deps))

    async def _run(self, run: PhaseRun, phase: RunPhase) -> NextAction:
        if run.state.input.mode == "batch" and phase.phase != CALL.phase:
            await discard_batches(run)
        if phase.phase == CONTINUE.phase:
            return await self._continue(run)
        return await _PHASES[phase.phase](run)

    async def _continue(self, run: PhaseRun) -> NextAction:
        """End a task, or wait for a person again."""
        state = run.state
        if state.progress.stage == "review":
            await prepare_wait(run, AwaitReview())
            return Wait(None, CONTINUE, "requires_action")
        if state.progress.stage == "halted":
            return Wait(None, CONTINUE, "halted")
        status = state.result.status if state.result is not None else "failed"
        with suppress(GitFailed):  # `forge-proxy tasks gc` removes what is left
            await self._remove(run)
            if status in ("merged", "rejected"):
                await self._deps.repositories.delete_branch(state.repository.path, branch_of(state.task_id))
        if status == "failed":
            outcome = write_error("TaskFailed", state.halt or "the task failed")
            run.writer.stage(NewEvent("status", {"status": "failed", "error": "TaskFailed"}), outcome=outcome)
            return Finished("failed")
        run.writer.stage(NewEvent("status", {"status": "completed", "result": status}), outcome=write_outcome(state))
        return Finished("completed")

    async def _remove(self, run: PhaseRun) -> None:
        """Remove the worktree; of a sub-task also the branch, which has no commits of its own."""
        await self._deps.repositories.remove_worktree(run.own_worktree, keep_branch=run.state.parent is None)


async def discard_leftovers(run: PhaseRun) -> None:
    """Remove the worktree of a cancelled task, which may not exist, and its batches with their files.

    Its branch is kept, unless it is that of a sub-task.
    """
    worktree = run.own_worktree
    await run.deps.repositories.remove_worktree(worktree, keep_branch=not is_sub_task_id(worktree.task_id))
    if run.state.input.mode == "batch":
        await discard_batches(run)


async def _halt(run: PhaseRun, phase: RunPhase, error: Exception) -> NextAction:
    """Halt a task because of what cannot be classified. A person may have it retried from the current step."""
    if phase.phase != START_SUB_TASKS.phase:
        run.stage(kept=run.state.children)  # what the sub-tasks have written is not at fault
    return await decide(run, AttemptImpossible(f"{phase.phase}: {_describe(error, phase)}"))


def _describe(error: Exception, phase: RunPhase) -> str:
    """Describe an error for a person. Details of internal errors are only in the log."""
    if isinstance(error, ForgeError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"it took longer than {TIMEOUTS[phase.phase]:g} s"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "an error inside forge-proxy; its log has the details"
