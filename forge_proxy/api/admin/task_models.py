"""The JSON of `/admin/v1/tasks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.jobs.outcomes import read_outcome
from forge_proxy.core.jobs.records import JobHead, JobStatus
from forge_proxy.core.tasks.call_record import CallOutcome, TaskCallRecord
from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.ids import branch_of
from forge_proxy.core.tasks.models import ForgeTaskInput, Plan, TaskStatus
from forge_proxy.core.tasks.records import FailedAttempt
from forge_proxy.tasks.service import StoredTask


class TaskSubmission(ForgeTaskInput):
    """A task, how it is executed, and who is notified."""

    notify_url: str | None = Field(
        default=None, max_length=2048, description="Notified when the task ends, halts or waits for a review."
    )


class TaskSummary(BaseModel):
    """A task in a list."""

    id: str
    status: JobStatus = Field(description="`requires_action`: it waits for a review; `halted`: for an answer.")
    title: str
    created_at: float = Field(description="Seconds since 1970.")
    updated_at: float = Field(description="The time of its last change, in seconds since 1970.")
    last_event: int = Field(description="The id of its latest event.")
    cancel_requested: bool = Field(description="Whether it is cancelled once its current phase ends.")


class FindingJson(BaseModel):
    """A finding of a check."""

    check: str
    message: str
    path: str | None
    line: int | None
    column: int | None
    code: str | None


class FailedAttemptJson(BaseModel):
    """An attempt that failed. Its changes are a document of the report."""

    step: str | None
    attempt: int
    reason: str
    findings: list[FindingJson]
    diff: str | None = Field(description="What the attempt had changed; null in a list of tasks.")


class SubTaskInfo(BaseModel):
    """A sub-task. It is a task with the same routes, but it is not reviewed."""

    id: str
    parent: str
    title: str
    status: JobStatus
    operation: str
    attempt: int
    calls: int
    output_files: list[str] = Field(description="What it has written, once it has completed.")
    digest: str = Field(description="What it reports to its parent.")
    reason: str = Field(description="Why it has failed.")


class TaskInfo(TaskSummary):
    """The current state of a task."""

    input: ForgeTaskInput
    branch: str
    base_branch: str
    base_commit: str
    head: str = Field(description="The latest commit of the task; the base if there is none.")
    operation: str
    step: str | None = Field(description="The current step of the plan.")
    attempt: int
    attempts: int = Field(description="Attempts that have ended, of all operations.")
    calls: int = Field(description="With those of its sub-tasks.")
    parent: str | None = Field(description="The task of which it is a sub-task.")
    sub_tasks: list[SubTaskInfo] = Field(description="Its sub-tasks and those below them, oldest first.")
    commits: dict[str, str] = Field(description="The commits of the steps.")
    waits_for: list[str] = Field(description="The tasks for which it waits before it works.")
    batch: str | None = Field(description="The job of the batch for which it waits, in the mode `batch`.")
    halt: str = Field(description="Why it has halted, or failed.")
    failures: list[FailedAttemptJson]
    result: TaskStatus | None = Field(description="`awaiting_merge`, `merged`, `rejected` or `failed`.")
    output_files: list[str] = Field(description="The files that its branch changes, once it waits for a review.")
    approver: str
    error: str | None = Field(description="The reason, if it failed.")


class TaskPage(BaseModel):
    """Some of the tasks, newest first."""

    data: list[TaskSummary]
    next: str | None = Field(description="The value of `before` for the next page; null on the last one.")


class TaskPlan(BaseModel):
    """The plan of a task."""

    plan: Plan | None = Field(description="Null if there is none (yet).")
    commits: dict[str, str]
    sub_tasks: list[SubTaskInfo]


class TaskCallJson(BaseModel):
    """A call of a task."""

    task: str = Field(description="The task or the sub-task.")
    number: int | None = Field(description="From 1, in each task, for `…/context`; null without a usable response.")
    operation: str
    step: str | None
    attempt: int
    tier: str
    model: str
    form: str
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    seconds: float
    requests: int = Field(description="Requests to the model: an invalid response is retried once.")
    match_levels: list[str] = Field(description="How the edits of the response were found.")
    ended_at: float = Field(description="Seconds since 1970.")
    outcome: CallOutcome = Field(
        description="`responded` and `written` while its attempt runs; `passed`, `failed` (checks), `edits_failed` or"
        " `rejected` (such as a path outside the scope) once it has ended; without a usable response `invalid`,"
        " `truncated`, `no_response` or `error`."
    )


class TaskCallPage(BaseModel):
    """The calls of a task and of its sub-tasks, each oldest first."""

    data: list[TaskCallJson]
    dropped: int = Field(description="Records of calls of all tasks that could not be stored since the daemon started.")


class TaskContext(TaskCallJson):
    """A call of a task with its prompt and its response."""

    system_prompt: str
    user_prompt: str
    response: str


class TaskDiff(BaseModel):
    """What a task has changed, as a unified diff."""

    base: str
    head: str
    diff: str


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TaskApproval(_Request):
    """The approval of a branch."""

    head: str | None = Field(default=None, description="The head that was reviewed; another one is a 409.")
    base: str | None = Field(default=None, description="The head of the base branch; another one is a 409.")
    method: Literal["merge", "squash", "rebase"] = "merge"
    approver: str = Field(default="", max_length=200, description="Default: the label of the key.")


class TaskRejection(_Request):
    """The rejection of a branch."""

    approver: str = Field(default="", max_length=200, description="Default: the label of the key.")


class TaskChanges(_Request):
    """Changes that a person requests."""

    comment: str = Field(min_length=1, max_length=20_000, description="What has to be changed.")


class TaskAnswer(_Request):
    """The answer to a halt."""

    answer: Literal["retry", "skip", "stop"] = Field(
        description="Retry the step with new attempts, skip it, or end the task."
    )
    note: str = Field(
        default="", max_length=20_000, description="Instructions for the model, part of the prompt of the next attempt."
    )


class TaskRetry(_Request):
    """A step from which the work is done again."""

    step: int = Field(
        default=1, ge=1, description="The number of the step, from 1; its commits and later ones are dropped."
    )


class LeftoverRequest(_Request):
    """Which worktrees are removed."""

    dry_run: bool = Field(default=False, description="Only list them.")


class LeftoverJson(BaseModel):
    """A worktree that no task needs. Its branch is kept."""

    task_id: str
    repository: str
    path: str
    branch: str


class LeftoverPage(BaseModel):
    """The worktrees that were removed, or would be."""

    data: list[LeftoverJson]


class TaskDeleted(BaseModel):
    """A deleted task."""

    id: str
    deleted: Literal[True] = True


def to_summary(job: JobHead) -> TaskSummary:
    """Return a task in a list."""
    return TaskSummary(
        id=job.id,
        status=job.status,
        title=job.title,
        created_at=job.created_at,
        updated_at=job.updated_at,
        last_event=job.last_event,
        cancel_requested=job.cancel_requested,
    )


def to_info(task: StoredTask, diffs: dict[str, str], sub_tasks: Sequence[StoredTask] = ()) -> TaskInfo:
    """Return the state of a task. `diffs` has the changes of failed attempts by their digests."""
    state, progress = task.state, task.state.progress
    outcome: Any = read_outcome(task.job.outcome)
    result, batched = state.result, state.current_batched
    return TaskInfo(
        **dict(to_summary(task.job)),
        input=state.input,
        branch=branch_of(state.task_id),
        base_branch=state.repository.base_branch,
        base_commit=state.repository.base_commit,
        head=state.head,
        operation=progress.operation,
        step=state.step_id,
        attempt=progress.attempt,
        attempts=progress.attempts,
        calls=sum(len(one.state.calls) for one in (task, *sub_tasks)),
        parent=task.job.parent,
        sub_tasks=[to_sub_task(one) for one in sub_tasks],
        commits=state.step_commits,
        waits_for=[] if task.job.is_finished else list(state.waits_for),
        batch=batched.batches[-1] if task.job.status == "waiting" and batched is not None else None,
        halt=state.halt,
        failures=[_to_failure(failure, diffs) for failure in state.failures],
        result=result.status if result is not None else None,
        output_files=list(result.output_files) if result is not None else [],
        approver=state.approver,
        error=outcome.get("message") if task.job.status == "failed" else None,
    )


def to_sub_task(task: StoredTask) -> SubTaskInfo:
    """Return a sub-task."""
    state, result = task.state, task.state.result
    return SubTaskInfo(
        id=task.job.id,
        parent=task.job.parent or "",
        title=task.job.title,
        status=task.job.status,
        operation=state.progress.operation,
        attempt=state.progress.attempt,
        calls=len(state.calls),
        output_files=list(result.output_files) if result is not None else [],
        digest=result.digest if result is not None and state.output is not None else "",
        reason=state.halt,
    )


def to_call(number: int | None, call: TaskCallRecord) -> TaskCallJson:
    """Return a call."""
    return TaskCallJson(
        task=call.task_id,
        number=number,
        operation=call.operation,
        step=call.step,
        attempt=call.attempt,
        tier=call.tier,
        model=call.model,
        form=call.form,
        prompt_tokens=call.prompt_tokens,
        cached_tokens=call.cached_tokens,
        completion_tokens=call.completion_tokens,
        seconds=call.seconds,
        ended_at=call.at,
        outcome=call.outcome,
        requests=call.requests,
        match_levels=list(call.match_levels),
    )


def _to_failure(failure: FailedAttempt, diffs: dict[str, str]) -> FailedAttemptJson:
    return FailedAttemptJson(
        step=failure.step,
        attempt=failure.attempt,
        reason=failure.reason,
        findings=[_to_finding(finding) for finding in failure.findings],
        diff=diffs.get(failure.diff or ""),
    )


def _to_finding(finding: Finding) -> FindingJson:
    return FindingJson(
        check=finding.check,
        message=finding.message,
        path=finding.path,
        line=finding.line,
        column=finding.column,
        code=finding.code,
    )
