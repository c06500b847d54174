"""`/admin/v1/jobs`: jobs of every kind. The routes of a kind, such as `/admin/v1/runs`, show its own fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from forge_proxy.api.admin.event_position import AFTER, LAST_EVENT_ID, read_position
from forge_proxy.core.jobs.actions import AwaitChildren, Finished, RunPhase, StoredAction, Wait, read_action
from forge_proxy.core.jobs.outcomes import read_outcome
from forge_proxy.core.jobs.records import JobHead, JobStatus, StoredJob
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.jobs.service import Jobs


class JobSummary(BaseModel):
    """A job in a list."""

    id: str = Field(description="The id of the job.")
    kind: str = Field(description="The kind of the job, such as `run`.")
    status: JobStatus
    title: str = Field(description="A name for lists, such as that of the workflow.")
    model: str | None = Field(description="The model of the job; null if it names none.")
    parent: str | None = Field(description="The job that created it.")
    created_at: float = Field(description="Seconds since 1970.")
    updated_at: float = Field(description="The time of the last change, in seconds since 1970.")
    wake_at: float | None = Field(description="When a waiting job continues by itself, in seconds since 1970.")
    last_event: int = Field(description="The id of its latest event.")
    cancel_requested: bool = Field(
        description="Whether cancellation was requested; the job is cancelled when its current step ends."
    )
    children: list[JobSummary] = Field(description="The jobs that it has created, oldest first.")


class JobInfo(JobSummary):
    """The current state of a job."""

    phase: str | None = Field(
        description="The phase that the job executes or will execute next; null if the job has ended."
    )
    queue: str | None = Field(description="The queue of that phase.")
    attempt: int | None = Field(description="The number of the attempt of that phase, from 1.")
    outcome: Any = Field(description="The result of the job; or, if it failed, its error with `type` and `message`.")


class JobPage(BaseModel):
    """Some of the jobs that no other job has created, newest first."""

    data: list[JobSummary]
    next: str | None = Field(description="The value of `before` for the next page; null on the last one.")


JobIdInPath = Annotated[str, Path(description="The id of the job.")]


class JobEndpoints:
    """The endpoints of `/jobs`."""

    def __init__(self, jobs: Jobs, keepalive_seconds: float) -> None:
        self._jobs = jobs
        self._keepalive_seconds = keepalive_seconds

    async def list(
        self,
        limit: Annotated[int, Query(ge=1, le=200, description="The largest number of jobs.")] = 20,
        before: Annotated[
            str | None, Query(max_length=128, description="The id of a job; only older ones are listed.")
        ] = None,
        kind: Annotated[str | None, Query(max_length=32, description="Only jobs of this kind.")] = None,
        status: Annotated[JobStatus | None, Query(description="Only jobs with this status.")] = None,
    ) -> JobPage:
        """List the jobs that no other job has created, newest first, each with its descendants."""
        which = JobFilter(kind, status, is_top=True)
        found = await self._jobs.list(which, before=before, limit=limit + 1)
        more = found[limit - 1].id if found[limit:] else None
        return JobPage(data=[*await self._with_children(found[:limit])], next=more)

    async def read(self, job_id: JobIdInPath) -> JobInfo:
        """Show a job and its descendants."""
        return await self._to_info(await self._jobs.get(job_id))

    async def events(
        self, request: Request, job_id: JobIdInPath, after: AFTER = 0, last_event_id: LAST_EVENT_ID = None
    ) -> Response:
        """Stream the events of a job as server-sent events with ids: first all past ones, then each new one. The stream
        ends with the job. A client that was disconnected continues after the last id that it received.
        """
        after = read_position(after, last_event_id)
        from forge_proxy.api.event_stream import event_stream  # imports sse_starlette: slow, and rarely needed

        await self._jobs.head(job_id)
        return event_stream(request, self._jobs.follow_events(job_id, after), self._keepalive_seconds)

    async def cancel(self, job_id: JobIdInPath) -> JobInfo:
        """Cancel a job and its descendants, at once or when their current steps end."""
        return await self._to_info(await self._jobs.cancel(job_id))

    async def _to_info(self, job: StoredJob) -> JobInfo:
        children = _by_parent(await self._jobs.list_descendants([job.root]))
        phase = _phase_of(read_action(job.action))
        return JobInfo(
            **dict(_to_summary(job, children)),
            phase=phase and phase.phase,
            queue=phase and phase.queue,
            attempt=phase and phase.attempt,
            outcome=read_outcome(job.outcome),
        )

    async def _with_children(self, heads: Sequence[JobHead]) -> Sequence[JobSummary]:
        children = _by_parent(await self._jobs.list_descendants([head.id for head in heads]))
        return [_to_summary(head, children) for head in heads]


def _by_parent(heads: Iterable[JobHead]) -> dict[str, list[JobHead]]:
    children: dict[str, list[JobHead]] = {}
    for head in heads:
        children.setdefault(head.parent or "", []).append(head)
    return children


def _to_summary(job: JobHead, children: Mapping[str, Sequence[JobHead]]) -> JobSummary:
    return JobSummary(
        id=job.id,
        kind=job.kind,
        status=job.status,
        title=job.title,
        model=job.model,
        parent=job.parent,
        created_at=job.created_at,
        updated_at=job.updated_at,
        wake_at=job.wake_at,
        last_event=job.last_event,
        cancel_requested=job.cancel_requested,
        children=[_to_summary(child, children) for child in children.get(job.id, ())],
    )


def _phase_of(action: StoredAction) -> RunPhase | None:
    match action:
        case RunPhase():
            return action
        case AwaitChildren() | Wait():
            return action.then
        case Finished():
            return None
