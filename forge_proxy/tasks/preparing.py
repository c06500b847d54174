"""Prepares a task: its worktree, and what the checks find before anything is changed."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import TypeAdapter

from forge_proxy.core.jobs.actions import NextAction
from forge_proxy.core.tasks.decisions import RECORD_BASELINE, to_action
from forge_proxy.core.tasks.findings import Baseline
from forge_proxy.core.tasks.state_machine import first_decision
from forge_proxy.tasks.phase_run import PhaseRun, json_document
from forge_proxy.tasks.ports import CheckRequest


async def prepare(run: PhaseRun) -> NextAction:
    """Create the worktree of a task. Replaces what an earlier task with the same id has left."""
    state, repositories = run.state, run.deps.repositories
    worktree = await repositories.create_worktree(state.repository.path, state.task_id, run.base)
    run.stage(run.event("prepared", branch=worktree.branch, base=run.base), worktree=worktree, head=run.base)
    return RECORD_BASELINE if state.baseline is None else to_action(first_decision(state.progress))


async def record_baseline(run: PhaseRun) -> NextAction:
    """Record what the checks find on the base branch: only other findings will be the task's own."""
    state, scope, worktree = run.state, run.scope, await run.worktree()
    files = [path for path in await run.deps.repositories.list_files(worktree) if scope.permits(path)]
    request = CheckRequest(worktree, tuple(files), state.input.task.validation)
    baseline = await run.deps.checks.record_baseline(request)
    await run.deps.repositories.reset(worktree, state.head)
    document = json_document(asdict(baseline))
    event = run.event("baseline", findings=len(baseline.findings), tests=baseline.collected_tests)
    run.stage(event, documents=[document], baseline=document.digest)
    return to_action(first_decision(state.progress))


async def read_baseline(run: PhaseRun) -> Baseline:
    """Return the stored baseline."""
    if run.state.baseline is None:
        return Baseline()
    return TypeAdapter(Baseline).validate_json(await run.read_document(run.state.baseline))
