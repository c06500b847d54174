"""How an attempt begins: with a clean worktree."""

from __future__ import annotations

from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.tasks.phase_run import PhaseRun


async def begin_attempt(run: PhaseRun) -> Worktree:
    """Return the worktree, clean: fresh for a single step (D15), else at the latest commit of the task (D23)."""
    state, repositories = run.state, run.deps.repositories
    if state.reset == "worktree" and not state.follow_up:
        return await repositories.create_worktree(state.repository.path, state.task_id, state.head)
    worktree = await run.worktree()
    await repositories.ensure_reset(worktree, state.head)
    return worktree
