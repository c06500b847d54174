"""Builds the tasks of a daemon: git, checks, and the calls to models."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forge_proxy.checks.checks import CheckSettings, RepositoryChecks
from forge_proxy.checks.commands import CommandLimits
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.git.allowed import AllowedRepositories
from forge_proxy.git.program import GitProgram
from forge_proxy.git.repositories import GitRepositories
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.ports import JobHandler, JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.settings import Settings
from forge_proxy.tasks.phase_run import PhaseRun, TaskDeps
from forge_proxy.tasks.ports import CallLog, Checks, Repositories, RequestBatches
from forge_proxy.tasks.service import TaskService
from forge_proxy.tasks.structured_call import StructuredCaller
from forge_proxy.tasks.task_handler import TaskHandler, discard_leftovers

AUTHOR = ("forge-proxy", "forge-proxy@localhost")
"""The author of the commits of tasks."""
_TURN_SECONDS = 600.0
"""After how long a task of several daemons looks again whether it has its turn."""


def recorded_repositories(state: Path, configured: Sequence[Path] = ()) -> AllowedRepositories:
    """Return the repositories in which tasks may work: those of the settings, and those in the state folder."""
    return AllowedRepositories(configured, state / "allowed-repositories.json")


@dataclass(frozen=True, slots=True)
class TaskParts:
    """What the tasks of a daemon are executed with."""

    deps: TaskDeps
    cleaning: BackgroundTasks

    def handlers(self) -> tuple[JobHandler, ...]:
        """Return the kinds of jobs of tasks."""
        return (TaskHandler(self.deps, self._discard),)

    def service(self, jobs: Jobs, check_notify_url: Callable[[str], None]) -> TaskService:
        """Return the operations on tasks."""
        return TaskService(jobs, self.deps, check_notify_url)

    def _discard(self, run: PhaseRun) -> None:
        async def remove() -> None:
            try:
                await discard_leftovers(run)
            except (ForgeError, OSError) as error:  # `forge-proxy tasks gc` removes worktrees; files of batches expire
                self.deps.report(run.state.task_id, error)

        self.cleaning.spawn(remove())


def build_tasks(
    settings: Settings,
    engine: Engine,
    open_jobs: Callable[[], Awaitable[JobStore]],
    state: Path,
    report: Callable[[str, Exception], None],
    call_log: CallLog | None = None,
    batches: RequestBatches | None = None,
) -> TaskParts:
    """Build the tasks of a daemon, whose worktrees are in the folder `state`."""
    git = GitProgram(AUTHOR)
    repositories: Repositories = GitRepositories(
        git, state / "worktrees", recorded_repositories(state, settings.tasks.repositories)
    )
    chosen = CheckSettings(
        settings.tasks.fix,
        settings.tasks.checks,
        CommandLimits(settings.tasks.memory_mb),
        is_sandboxed=settings.tasks.sandbox == "bubblewrap",
        visible=tuple(path.expanduser() for path in settings.tasks.visible_paths),
    )
    checks: Checks = RepositoryChecks(repositories, chosen)
    caller = StructuredCaller(engine, settings.tiers, MonotonicClock())
    turn_seconds = _TURN_SECONDS if settings.jobs.scheduler == "temporal" else None
    deps = TaskDeps(
        repositories,
        checks,
        caller,
        open_jobs,
        settings.tasks,
        time.time,
        report,
        call_log,
        batches,
        turn_seconds=turn_seconds,
    )
    return TaskParts(deps, BackgroundTasks())
