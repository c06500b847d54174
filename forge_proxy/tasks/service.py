"""The operations on tasks that the API offers: submit, get, list, and all that a person decides."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jobs.actions import NewJob, RunPhase, write_action
from forge_proxy.core.jobs.errors import JobIdInUse, JobNotFound
from forge_proxy.core.jobs.records import IdempotencyClaim, JobEvent, JobHead, JobStatus, NewEvent, StoredJob
from forge_proxy.core.tasks.call_record import TaskCallRecord
from forge_proxy.core.tasks.decisions import (
    AWAIT_TURN,
    CONTINUE,
    PREPARE,
    AwaitReview,
    Decision,
    End,
    Halt,
    reset_of,
    to_action,
)
from forge_proxy.core.tasks.errors import MergeConflict
from forge_proxy.core.tasks.happenings import Answered, ChangesRequested, Happening, RetryRequested, ReviewEnded
from forge_proxy.core.tasks.ids import branch_of, find_part_fault
from forge_proxy.core.tasks.models import ForgeTaskInput, TaskDefinition, title_of
from forge_proxy.core.tasks.paths import find_path_fault
from forge_proxy.core.tasks.progress import TaskProgress
from forge_proxy.core.tasks.records import TaskState, read_task, write_task
from forge_proxy.core.tasks.scopes import is_pattern
from forge_proxy.core.tasks.state_machine import HappeningUnexpected, advance
from forge_proxy.core.tasks.task_scope import scope_of_task
from forge_proxy.core.tasks.workspace import Leftover, MergeMethod, RepositoryState
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.ids import new_job_id
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.tasks.call_records import to_record
from forge_proxy.tasks.descendants import read_descendants
from forge_proxy.tasks.errors import TaskConflict, TaskNotFound, as_task_errors
from forge_proxy.tasks.evaluating import NO_CHILDREN
from forge_proxy.tasks.event_feed import follow_with_sub_tasks
from forge_proxy.tasks.phase_run import TaskDeps
from forge_proxy.tasks.task_handler import TaskHandler
from forge_proxy.tasks.turns import TurnWaker


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as stored."""

    job: StoredJob
    state: TaskState


class TaskService:
    """The tasks among a daemon's jobs.

    Every method raises `StoreUnavailable`; those on one task also raise `TaskNotFound`.
    """

    def __init__(self, jobs: Jobs, deps: TaskDeps, check_notify_url: Callable[[str], None] = lambda _: None) -> None:
        """`check_notify_url` raises `InvalidRequest` for a URL that may not be called."""
        self._check_notify_url = check_notify_url
        self._jobs = jobs
        self._deps = deps

    async def submit(self, wanted: ForgeTaskInput, key: str | None = None, notify_url: str | None = None) -> StoredTask:
        """Store a task and start it. If `key` was used before, return the task that was stored with it.

        Raises `InvalidRequest`, `RepositoryUnusable`, or `TaskConflict` if the id is in use.
        """
        if notify_url is not None:
            self._check_notify_url(notify_url)
        if not wanted.repository.startswith("/"):
            raise InvalidRequest("repository", "expected an absolute path")
        claim = None if key is None else IdempotencyClaim(f"task:{key}", _digest_of(wanted))
        if claim is not None and (claimed := await self._find_claimed(claim)) is not None:
            return claimed  # whatever has become of the repository and of other tasks since then
        _check_paths(wanted.task, self._deps.config.protected)
        if wanted.task.task_id is not None and (fault := find_part_fault(wanted.task.task_id)):
            raise InvalidRequest("task.task_id", f"{fault}; choose another id")
        if wanted.mode == "batch" and self._deps.batches is None:
            raise InvalidRequest("mode", "batch: this daemon has no batches")
        wanted = wanted.model_copy(update={"max_fan_out_depth": self._depth_of(wanted)})
        await self._check_predecessors(wanted.after)
        task_id = wanted.task.task_id or new_job_id("task", self._deps.now())
        repository = await self._inspect(wanted, task_id, claim)
        progress = TaskProgress.begin(is_planned=wanted.plan, max_attempts=wanted.max_attempts)
        state = TaskState(
            task_id, wanted, repository, progress, instructions=self._deps.config.instructions,
            head=repository.base_commit,
        )  # fmt: skip
        title = title_of(wanted.task.description)
        new = NewJob(task_id, TaskHandler.kind, title, write_task(state), notify_url=notify_url)
        with as_task_errors(task_id):
            try:
                job = await self._jobs.submit(new, claim=claim)
            except JobIdInUse as error:
                raise TaskConflict(f"a job with the id {task_id} exists already; choose another task_id") from error
        return await self.get(job.id)

    async def _find_claimed(self, claim: IdempotencyClaim) -> StoredTask | None:
        """Return the task that was stored with a key. Raises `TaskConflict` if its submission was different."""
        with as_task_errors(""):
            job = await self._jobs.find_claimed(claim)
        return None if job is None else await self.get(job.id)

    def _depth_of(self, wanted: ForgeTaskInput) -> int:
        """Return how deep sub-tasks may be nested (D17). Raises `InvalidRequest`."""
        limit, own = self._deps.config.max_fan_out_depth, wanted.max_fan_out_depth
        if own is not None and own > limit:
            raise InvalidRequest("max_fan_out_depth", f"{own}; {limit} is possible (tasks.max_fan_out_depth)")
        return limit if own is None else own

    async def _inspect(self, wanted: ForgeTaskInput, task_id: str, claim: IdempotencyClaim | None) -> RepositoryState:
        """Return the state of the repository. Raises `TaskConflict` for an id in use, unless the submission repeats."""
        try:
            existing = await self.get(task_id)
        except TaskNotFound:
            return await self._deps.repositories.inspect(wanted.repository, wanted.base, task_id)
        if claim is None:
            raise TaskConflict(f"a task with the id {task_id} exists already; choose another task_id")
        return existing.state.repository  # if it was stored with the same key, the store returns it

    async def _check_predecessors(self, after: Sequence[str]) -> None:
        """Raise `InvalidRequest` for a predecessor that does not exist: tasks wait only for earlier ones."""
        for number, task_id in enumerate(after):
            try:
                parent = (await self.get(task_id)).job.parent
            except TaskNotFound as error:
                raise InvalidRequest(f"after[{number}]", str(error)) from error
            if parent is not None:
                raise InvalidRequest(f"after[{number}]", f"{task_id} is a sub-task of {parent}, and is never merged")

    async def get(self, task_id: str) -> StoredTask:
        """Return the current state of a task."""
        with as_task_errors(task_id):
            job = await self._jobs.get(task_id)
            _check_kind(job)
            return StoredTask(job, read_task(await self._jobs.read_state(job)))

    async def list(self, *, before: str | None, limit: int, status: JobStatus | None) -> Sequence[JobHead]:
        """Return tasks, newest first; with `before` only those older than that task."""
        which = JobFilter(kind=TaskHandler.kind, status=status, is_top=True, by_time=True)
        with as_task_errors(before or ""):
            return await self._jobs.list(which, before=before, limit=limit)

    async def list_sub_tasks(self, task_id: str) -> Sequence[StoredTask]:
        """Return the sub-tasks of a task and those below them, oldest first."""
        job = (await self.get(task_id)).job
        below = read_descendants(await self._deps.open_jobs(), job)
        return [StoredTask(*found) async for found in below]

    async def follow_events(
        self, task_id: str, after: int = 0, *, with_sub_tasks: bool = False
    ) -> AsyncGenerator[JobEvent]:
        """Yield the events of a task with ids greater than `after` as they happen, until it or the daemon ends.

        See `follow_with_sub_tasks` for those of its sub-tasks.
        """
        follow = partial(follow_with_sub_tasks, self._jobs) if with_sub_tasks else self._jobs.follow_events
        with as_task_errors(task_id):
            async with aclosing(follow(task_id, after)) as events:
                async for event in events:
                    yield event

    async def list_calls(self, task_id: str) -> Sequence[TaskCallRecord]:
        """Return the calls of a task, oldest first: those of its state, and what else was recorded."""
        state, log = (await self.get(task_id)).state, self._deps.call_log
        known = {(call.round, call.part): to_record(task_id, call) for call in state.calls}
        recorded = await log.list(task_id) if log is not None else ()
        calls = {(one.round, one.part): one for one in recorded} | known
        return [calls[key] for key in sorted(calls)]

    @property
    def dropped_calls(self) -> int:
        """The records of calls that could not be stored, of all tasks, since the daemon has started."""
        return 0 if self._deps.call_log is None else self._deps.call_log.dropped

    async def read_documents(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return the contents of documents of a task: prompts, responses, changes of failed attempts."""
        return await (await self._deps.open_jobs()).read_documents(digests) if digests else {}

    async def diff(self, task_id: str) -> str:
        """Return what a task has changed since its base, as a unified diff."""
        state = (await self.get(task_id)).state
        if state.head == state.repository.base_commit:
            return ""
        return await self._deps.repositories.diff(state.repository.path, state.repository.base_commit, state.head)

    async def approve(
        self, task_id: str, *, head: str | None, base: str | None, method: MergeMethod, approver: str
    ) -> StoredTask:
        """Merge the branch of a task into its base branch (D7).

        `head` and `base` are the commits that the approver has seen. Raises `TaskConflict` if they have changed, if the
        branches are in conflict, or if the base branch is checked out with changes.
        """
        async with self._lock(task_id) as writer:
            state = read_task(writer.state)
            _check_review(writer, state)
            repository = state.repository
            if head is not None and head != state.head:
                raise TaskConflict(f"the head of the branch is {state.head}, not {head}; look at the diff again")
            present = await self._deps.repositories.branch_head(repository.path, repository.base_branch)
            if present is None:
                raise TaskConflict(f"there is no branch {repository.base_branch} any more")
            try:
                merged = await self._deps.repositories.merge(
                    repository.path, branch_of(task_id), repository.base_branch,
                    expected_head=state.head, expected_base=base or present, method=method,
                    message=_merge_message(state, approver),
                )  # fmt: skip
            except MergeConflict as error:
                raise TaskConflict(str(error)) from error
            event = NewEvent("merged", {"commit": merged.commit, "method": method, "approver": approver})
            return await self._decide(writer, state, ReviewEnded("merged"), event, approver=approver, head=state.head)

    async def reject(self, task_id: str, approver: str) -> StoredTask:
        """End a task without a merge; its branch is deleted."""
        async with self._lock(task_id) as writer:
            state = read_task(writer.state)
            _check_review(writer, state)
            event = NewEvent("rejected", {"approver": approver})
            return await self._decide(writer, state, ReviewEnded("rejected"), event, approver=approver)

    async def request_changes(self, task_id: str, comment: str) -> StoredTask:
        """Have another attempt made on the same branch, with the comment of a person."""
        async with self._lock(task_id) as writer:
            state = read_task(writer.state)
            _check_review(writer, state)
            event = NewEvent("changes_requested", {})
            return await self._decide(writer, state, ChangesRequested(), event, notes=(*state.notes, comment))

    async def answer(self, task_id: str, answer: Literal["retry", "skip", "stop"], note: str) -> StoredTask:
        """Continue a halted task (D9)."""
        async with self._lock(task_id) as writer:
            state = read_task(writer.state)
            if writer.job.status != "halted":
                raise TaskConflict(f"the task {task_id} is {writer.job.status}: it waits for no answer")
            notes = (*state.notes, note) if note.strip() else state.notes
            event = NewEvent("answered", {"answer": answer})
            return await self._decide(writer, state, Answered(answer), event, notes=notes, halt="")

    async def retry(self, task_id: str, step: int) -> StoredTask:
        """Do the work from a step on again. `step` counts from 0."""
        async with self._lock(task_id) as writer:
            state = read_task(writer.state)
            if writer.job.status not in ("halted", "requires_action"):
                raise TaskConflict(f"the task {task_id} is {writer.job.status}: it can be retried once it waits")
            kept = [commit for commit in state.progress.commits[:step] if commit is not None]
            head = kept[-1] if kept else state.repository.base_commit
            event = NewEvent("retried", {"step": step})
            return await self._decide(writer, state, RetryRequested(step), event, head=head, halt="")

    async def cancel(self, task_id: str) -> StoredTask:
        """Cancel a task, at once or when its current phase ends. Raises `TaskConflict` if it has ended."""
        await self.get(task_id)
        with as_task_errors(task_id):
            await self._jobs.cancel(task_id)
        return await self.get(task_id)

    async def delete(self, task_id: str) -> None:
        """Delete a task that has ended. Its branch is kept, unless it was merged or rejected.

        Raises `TaskConflict` if it has not ended, or is a sub-task: its parent needs what it has written.
        """
        if (parent := (await self.get(task_id)).job.parent) is not None:
            raise TaskConflict(f"the task {task_id} is a sub-task of {parent} and is deleted with it")
        with as_task_errors(task_id):
            await self._jobs.delete(task_id)

    async def remove_leftovers(self, *, only_list: bool) -> Sequence[Leftover]:
        """Remove, or only list, the worktrees that no unfinished task needs. Their branches are kept."""
        store = await self._deps.open_jobs()

        async def read_active() -> Sequence[str]:
            return [head.id for head in await store.list_unfinished()]

        repositories = self._deps.repositories
        find = repositories.list_leftovers if only_list else repositories.remove_leftovers
        return await find(read_active)

    def turn_waker(self, tasks: BackgroundTasks) -> TurnWaker:
        """Return what wakes waiting tasks, with its work in `tasks`."""
        return TurnWaker(self._deps.open_jobs, self._jobs.wake, tasks)

    def _lock(self, task_id: str) -> _TaskLock:
        return _TaskLock(self._jobs, task_id)

    async def _decide(
        self, writer: JobWriter, state: TaskState, happening: Happening, event: NewEvent, **changes: Any
    ) -> StoredTask:
        """Store what a person has decided, and continue the task. Raises `TaskConflict`."""
        try:
            progress, decision = advance(state.progress, happening)
        except HappeningUnexpected as error:
            raise TaskConflict(str(error)) from error
        if happening != Answered("retry"):
            changes = {**NO_CHILDREN, **changes}
        state = replace(state, progress=progress, reset=reset_of(decision), follow_up=(), **changes)
        if isinstance(decision, End):
            result = None if state.result is None else replace(state.result, status=_status_of(decision))
            state = replace(state, result=result, halt=decision.reason)
        status = NewEvent("status", {"status": "queued"})
        action = _action_of(decision)
        if action != CONTINUE:
            then = PREPARE if state.worktree is None else action
            state, action = replace(state, is_admitted=False, then=then.phase), AWAIT_TURN
        await writer.write(
            event, status, state=write_task(state), status="queued", action=write_action(action), wake_at=None
        )
        return StoredTask(writer.job, state)


class _TaskLock:
    """Locks a task for a person's decision."""

    def __init__(self, jobs: Jobs, task_id: str) -> None:
        self._task_id = task_id
        self._lock = jobs.lock(task_id)

    async def __aenter__(self) -> JobWriter:
        with as_task_errors(self._task_id):
            writer = await self._lock.__aenter__()
        try:
            _check_kind(writer.job)
        except JobNotFound:
            await self._lock.__aexit__(None, None, None)
            raise
        return writer

    async def __aexit__(self, *error: Any) -> None:
        await self._lock.__aexit__(*error)


def _action_of(decision: Decision) -> RunPhase:
    """Return the phase that a decision of a person starts."""
    if isinstance(decision, AwaitReview | Halt | End):
        return CONTINUE
    action = to_action(decision)
    assert isinstance(action, RunPhase)  # noqa: S101  # the others are waits and ends
    return action


def _status_of(decision: End) -> Literal["merged", "rejected", "failed"]:
    return "failed" if decision.status == "completed" else decision.status


def _check_kind(job: JobHead) -> None:
    if job.kind != TaskHandler.kind:
        raise JobNotFound(job.id)


def _check_review(writer: JobWriter, state: TaskState) -> None:
    if writer.job.status != "requires_action":
        raise TaskConflict(f"the task {state.task_id} is {writer.job.status}: there is nothing to review")


def _check_paths(task: TaskDefinition, protected: Sequence[str]) -> None:
    scope = scope_of_task(task, protected, is_planned=False)
    for field in ("target_files", "context_files"):
        for number, path in enumerate(getattr(task, field)):
            if fault := find_path_fault(path):
                raise InvalidRequest(f"task.{field}[{number}]", fault)
            if field == "target_files" and is_pattern(path):
                raise InvalidRequest(f"task.{field}[{number}]", "expected a file; patterns are possible in may_write")
            if field == "target_files" and not scope.permits(path):
                raise InvalidRequest(f"task.{field}[{number}]", "tasks may not write this path (tasks.protected)")


def _digest_of(wanted: ForgeTaskInput) -> str:
    return hashlib.sha256(wanted.model_dump_json().encode()).hexdigest()


def _merge_message(state: TaskState, approver: str) -> str:
    subject = " ".join(state.input.task.description.split())[:72]
    return f"{subject}\n\nForge-Task: {state.task_id}\nApproved-by: {approver or 'the admin API'}\n"
