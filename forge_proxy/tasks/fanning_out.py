"""`start_sub_tasks`: creates a child job for each sub-task of the current step.

Sub-tasks whose outputs an earlier attempt has left and that no finding concerns are not repeated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from forge_proxy.core.jobs.actions import NewJob, NextAction, StartChildren
from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.limits import MAX_TREE
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.tasks.decisions import GATHER
from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.ids import sub_task_id
from forge_proxy.core.tasks.models import PlanStep, SubTask, title_of
from forge_proxy.core.tasks.progress import TaskProgress
from forge_proxy.core.tasks.prompt.assemble import render_outline
from forge_proxy.core.tasks.records import ParentLink, TaskState, read_task, write_task
from forge_proxy.core.tasks.sub_tasks import to_step
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.writer import read_state
from forge_proxy.tasks.attempt_errors import AttemptError
from forge_proxy.tasks.beginning import begin_attempt
from forge_proxy.tasks.phase_run import PhaseRun


@dataclass(frozen=True, slots=True)
class StoredSubTask:
    """A sub-task as stored."""

    job: StoredJob
    state: TaskState

    @property
    def failure(self) -> str | None:
        """Why it has not completed; None if it has."""
        if self.job.status == "completed" and self.state.output is not None:
            return None
        return "it was cancelled" if self.job.status == "cancelled" else self.state.halt or f"it has {self.job.status}"


async def start_sub_tasks(run: PhaseRun) -> NextAction:
    """Start the sub-tasks of the current step. Raises `AttemptError` if the tree of jobs would become too large."""
    state, step = run.state, current_step(run)
    worktree = await begin_attempt(run)
    store = await run.deps.open_jobs()
    before = state.children if len(state.children) == len(step.sub_tasks) else ("",) * len(step.sub_tasks)
    children: list[str] = []
    jobs: list[NewJob] = []
    for sub_task, earlier in zip(step.sub_tasks, before, strict=True):
        known = await read_sub_task(store, earlier) if earlier else None
        if known is not None and earlier in state.kept and known.failure is None:
            children.append(earlier)
            continue
        child_id = await _find_free_id(store, sub_task_id(state.task_id, sub_task.id), {job.id for job in jobs})
        child = _build_state(run, worktree, sub_task, child_id, known)
        jobs.append(NewJob(child_id, run.writer.job.kind, title_of(sub_task.description), write_task(child)))
        children.append(child_id)
    total = await store.count_tree(run.writer.job.root) + len(jobs)
    if total > MAX_TREE:
        raise AttemptError(f"the task would have {total} jobs; {MAX_TREE} are possible", is_final=True)
    event = run.event("sub_tasks_started", sub_tasks=[job.id for job in jobs])
    run.stage(event, worktree=worktree, children=tuple(children), kept=(), follow_up=(),
              responses=(), findings=(), results=(), written=(), conflicts=(), gathered=None)  # fmt: skip
    return StartChildren(tuple(jobs), GATHER) if jobs else GATHER


def current_step(run: PhaseRun) -> PlanStep:
    """Return the step whose sub-tasks are executed."""
    step = run.state.progress.current
    if step is None:
        raise AssertionError("only a step of a plan has sub-tasks")
    return step


async def read_sub_task(store: JobStore, job_id: str) -> StoredSubTask:
    """Return a sub-task. Raises `JobNotFound`."""
    job = await store.get(job_id)
    return StoredSubTask(job, read_task(await read_state(store, job)))


async def _find_free_id(store: JobStore, wanted: str, taken: Collection[str]) -> str:
    """Return the first of `wanted`, `wanted.2`, `wanted.3`, … that no job has, and that is not `taken`."""
    number, candidate = 1, wanted
    while True:
        if candidate not in taken:
            try:
                await store.head(candidate)
            except JobNotFound:
                return candidate
        number += 1
        candidate = f"{wanted}.{number}"


def _build_state(
    run: PhaseRun, worktree: Worktree, sub_task: SubTask, child_id: str, earlier: StoredSubTask | None
) -> TaskState:
    """Return the state of a sub-task. It begins with the findings of the attempt before, if there was one."""
    state, step = run.state, current_step(run)
    above = state.parent.outline if state.parent is not None else render_outline(state.progress.plan)
    findings, files = state.previous, state.previous_files
    if earlier is not None and earlier.failure is not None:
        findings, files = earlier.state.previous, earlier.state.previous_files
    return TaskState(
        child_id,
        state.input,
        state.repository,
        TaskProgress.begin(is_planned=False, max_attempts=state.progress.max_attempts, part=to_step(step, sub_task)),
        instructions=state.instructions,
        head=state.head,
        baseline=state.baseline,
        previous=_select(findings, step, sub_task),
        previous_files=files,
        notes=state.notes,
        parent=ParentLink(worktree, state.head, render_outline(None, step, above)),
    )


def _select(findings: tuple[Finding, ...], step: PlanStep, sub_task: SubTask) -> tuple[Finding, ...]:
    """Return the findings for a sub-task: all but those in the files of the others."""
    others = {*to_step(step, sub_task).must_not_write} - {*step.must_not_write}
    return tuple(finding for finding in findings if finding.path not in others)
