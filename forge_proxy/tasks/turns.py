"""`await_turn`: a task waits for its predecessors, and for tasks that write the same files. A task that ends or
waits for a person wakes those that may wait for it. Nothing is polled, unless several daemons share the tasks: the one
that would have woken a task may be killed, and the others do not start again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from forge_proxy.core.jobs.actions import NextAction, RunPhase, Wait
from forge_proxy.core.jobs.errors import JobNotFound, JobNotReadable
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.tasks.decisions import ASSEMBLE, AWAIT_TURN, PREPARE, START_SUB_TASKS
from forge_proxy.core.tasks.errors import GitFailed
from forge_proxy.core.tasks.happenings import AttemptImpossible
from forge_proxy.core.tasks.records import TaskState, read_task, write_task
from forge_proxy.core.tasks.task_scope import scope_of_task
from forge_proxy.core.tasks.turns import PredecessorEnd, ScopeClaim, describe_missed, find_blockers
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.retries import retry_until_store_returns
from forge_proxy.jobs.writer import read_state
from forge_proxy.tasks.evaluating import decide
from forge_proxy.tasks.phase_run import PhaseRun

KIND = "task"
_THEN: Mapping[str, RunPhase] = {phase.phase: phase for phase in (PREPARE, ASSEMBLE, START_SUB_TASKS)}
"""The phases with which a task continues when it has its turn."""
_WORKING = ("queued", "running", "waiting")
"""The statuses of a task that waits for no person."""
WakeJob: TypeAlias = Callable[[str], Awaitable[None]]


async def await_turn(run: PhaseRun) -> NextAction:
    """Continue the task if no other task blocks it; otherwise wait."""
    if not run.state.is_admitted:
        if (action := await _await_predecessors(run)) is not None:
            return action
        store = await run.deps.open_jobs()
        async with run.deps.turn_lock, store.lock("turns"):  # two tasks must not both find that nothing is in their way
            blockers = await _find_blockers(run)
            if blockers:
                return _wait(run, blockers)
            await _admit(run)
    return _THEN[run.state.then]


async def _await_predecessors(run: PhaseRun) -> NextAction | None:
    """Return what happens if the predecessors of the task are not merged; None if they are."""
    state = run.state
    if state.has_predecessors_ended:
        return None
    waiting: list[str] = []
    ends: list[tuple[str, PredecessorEnd]] = []
    store = await run.deps.open_jobs()
    for task_id in state.input.after:
        with suppress(JobNotFound):  # it has ended, and was deleted
            job = await store.get(task_id)
            if not job.is_finished:
                waiting.append(task_id)
            else:
                ends.append((task_id, _end_of(job, read_task(await read_state(store, job)))))
    if waiting:
        return _wait(run, tuple(waiting))
    run.stage(has_predecessors_ended=True)
    if (reason := describe_missed(ends)) is not None:
        return await decide(run, AttemptImpossible(reason))
    return None


def _end_of(job: StoredJob, state: TaskState) -> PredecessorEnd:
    if job.status == "completed":
        return "merged" if state.result is None or state.result.status == "merged" else "rejected"
    return "cancelled" if job.status == "cancelled" else "failed"


def _wait(run: PhaseRun, blockers: tuple[str, ...]) -> Wait:
    if blockers != run.state.waits_for:
        run.stage(run.event("waiting_for", tasks=[*blockers]), waits_for=blockers)
    seconds = run.deps.turn_seconds
    return Wait(None if seconds is None else run.deps.now() + seconds, AWAIT_TURN)


async def _admit(run: PhaseRun) -> None:
    """Store that the task has its turn, before another one looks."""
    state, changes = run.state, {}
    if state.waits_for and state.worktree is None:  # what it has waited for may be part of the base branch now
        repository = state.repository
        head = await run.deps.repositories.branch_head(repository.path, repository.base_branch)
        if head is None:
            raise GitFailed(f"there is no branch {repository.base_branch} any more")
        changes = {"repository": replace(repository, base_commit=head), "head": head}
    after = replace(state, is_admitted=True, waits_for=(), **changes)
    await run.writer.write(run.event("admitted"), state=write_task(after))
    run.state = after
    run.writer.take_staged()  # it was stored with the state


async def _find_blockers(run: PhaseRun) -> tuple[str, ...]:
    store, protected = await run.deps.open_jobs(), run.deps.config.protected
    others = [_to_claim(job, state, protected) async for job, state in _read_unfinished(store)]
    return find_blockers(_to_claim(run.writer.job, run.state, protected), others)


def _to_claim(job: StoredJob, state: TaskState, protected: tuple[str, ...]) -> ScopeClaim:
    is_active = job.status in _WORKING
    return ScopeClaim(
        job.id,
        job.created_at,
        state.repository.path,
        scope_of_task(state.input.task, protected, is_planned=state.input.plan),
        is_working=is_active and state.is_admitted,
        is_next=is_active and not state.is_admitted and (state.has_predecessors_ended or not state.input.after),
    )


async def _read_unfinished(store: JobStore) -> AsyncGenerator[tuple[StoredJob, TaskState]]:
    """Yield the unfinished tasks, oldest first. Sub-tasks share the turns of their parents."""
    for head in await store.list_unfinished():
        if head.kind == KIND and head.parent is None:
            with suppress(JobNotFound, JobNotReadable):  # it was deleted, or another version has written it
                job = await store.get(head.id)
                yield job, read_task(await read_state(store, job))


class TurnWaker:
    """Wakes the tasks that may have their turn: a listener of changes of jobs."""

    def __init__(self, open_jobs: Callable[[], Awaitable[JobStore]], wake: WakeJob, tasks: BackgroundTasks) -> None:
        self._open_jobs = open_jobs
        self._wake = wake
        self._tasks = tasks

    def on_change(self, before: StoredJob, after: StoredJob) -> None:
        """See `jobs.writers.OnChange`."""
        is_released = after.status not in _WORKING and after.status != before.status
        if is_released and after.kind == KIND and after.parent is None:
            self._tasks.spawn(self._wake_waiting(after.id))

    async def on_open(self, _: JobStore) -> Callable[[], None]:
        """See `jobs.writers.OnOpen`. An earlier daemon may have ended before it woke a task."""

        def wake_all() -> None:
            self._tasks.spawn(self._wake_waiting(None))

        return wake_all

    async def _wake_waiting(self, released: str | None) -> None:
        """Wake the tasks that may wait for `released`; all that wait, if it is None."""
        async for attempt in retry_until_store_returns():
            with attempt:
                async for job, state in _read_unfinished(await self._open_jobs()):
                    is_concerned = released is None or job.status != "waiting" or released in state.waits_for
                    if job.id != released and job.status in _WORKING and not state.is_admitted and is_concerned:
                        with suppress(JobNotFound, JobNotReadable):  # it was deleted meanwhile
                            await self._wake(job.id)
