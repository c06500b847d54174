"""`validate_output`: runs the fixers and the deterministic checks (D12, D21)."""

from __future__ import annotations

from forge_proxy.core.jobs.actions import NextAction
from forge_proxy.core.tasks.decisions import EVALUATE
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.tasks.phase_run import PhaseRun
from forge_proxy.tasks.ports import CheckRequest
from forge_proxy.tasks.preparing import read_baseline


async def validate_output(run: PhaseRun) -> NextAction:
    """Fix and check what the task has changed since its base."""
    worktree = await run.worktree()
    request = await check_request(run, worktree)
    if request.config.auto_fix:
        await run.deps.checks.fix(request)
    results = tuple(await run.deps.checks.run(request, await read_baseline(run)))
    checks = [{"check": one.check, "passed": one.passed, "findings": len(one.findings)} for one in results]
    run.stage(run.event("validated", checks=[*checks]), results=results, checked=request.files)
    return EVALUATE


async def check_request(run: PhaseRun, worktree: Worktree) -> CheckRequest:
    """Return what is checked: the files that the task has changed, its earlier steps included."""
    state = run.state
    changed = await run.deps.repositories.changed_files(worktree, run.base)
    files = tuple(sorted({*changed, *state.written}))
    return CheckRequest(worktree, files, state.input.task.validation, is_part=state.parent is not None)
