"""The ports of jobs: a store, the handler of a kind of jobs, a scheduler, and a sender of notifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from forge_proxy.core.jobs.actions import NextAction, RunPhase, StoredAction, Wait
from forge_proxy.core.jobs.records import (
    NOTIFIED,
    Document,
    IdempotencyClaim,
    JobEvent,
    JobHead,
    JobStatus,
    Notification,
    Schedule,
    StoredJob,
)

if TYPE_CHECKING:
    from forge_proxy.jobs.writer import JobWriter


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; None means all."""

    kind: str | None = None
    status: JobStatus | None = None
    owner: str | None = None
    parent: str | None = None
    is_top: bool = False
    """Only jobs without a parent."""
    by_time: bool = False
    """Whether the ids of the kind do not sort by time of creation: clients choose those of tasks."""


@dataclass(frozen=True, slots=True)
class NewRow:
    """A job that is created, with its first events."""

    job: StoredJob
    events: Sequence[JobEvent]
    parts: Sequence[Document] = ()
    """The parts of its state."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """A change of a job, which is stored whole or not at all."""

    job: StoredJob
    since: int
    """The id of the last event that the change builds on."""
    events: Sequence[JobEvent]
    documents: Sequence[Document] = ()
    """Documents to which the job refers from now on until it is deleted."""
    parts: Sequence[Document] = ()
    """New parts of its state."""
    dropped_parts: Sequence[str] = ()
    """Digests of parts that its state no longer has."""
    children: Sequence[NewRow] = ()

    @property
    def is_notified(self) -> bool:
        """Whether the job's client is notified of the change."""
        has_status = any(event.type == "status" for event in self.events)
        return self.job.notify_url is not None and self.job.status in NOTIFIED and has_status


class JobStore(Protocol):
    """Stores jobs, their events and documents. Every method raises `StoreUnavailable`."""

    async def create(self, row: NewRow, claim: IdempotencyClaim | None) -> StoredJob:
        """Store a new job and return it; if the key of `claim` was used before, return the job stored with it.

        Raises `JobConflict` if that job's submission was different, and `JobIdInUse` if another job has its id.
        """
        ...

    async def find_claimed(self, claim: IdempotencyClaim) -> StoredJob | None:
        """Return the job that was stored with the key of `claim`; None if there is none.

        Raises `JobConflict` if its submission was different.
        """
        ...

    async def get(self, job_id: str) -> StoredJob:
        """Return a job. Raises `JobNotFound`."""
        ...

    async def head(self, job_id: str) -> JobHead:
        """Return the list fields of a job. Raises `JobNotFound`."""
        ...

    async def list(self, which: JobFilter, *, before: str | None, limit: int) -> Sequence[JobHead]:
        """Return jobs, newest first; with `before` only those older than that job."""
        ...

    async def list_unfinished(self, *, parent: str | None = None) -> Sequence[JobHead]:
        """Return the jobs without a final status, oldest first; with `parent` only its child jobs."""
        ...

    async def list_descendants(self, roots: Sequence[str]) -> Sequence[JobHead]:
        """Return the descendants of these top-level jobs, oldest first."""
        ...

    async def count_unfinished(self) -> Mapping[JobStatus, int]:
        """Return the number of jobs of each status that is not final."""
        ...

    async def list_expired(self, before: float, limit: int) -> Sequence[str]:
        """Return up to `limit` jobs without a parent that ended before that time."""
        ...

    async def count_tree(self, root: str) -> int:
        """Return the number of jobs of a tree."""
        ...

    async def list_due(self, now: float) -> Sequence[str]:
        """Return the ids of waiting jobs whose time has come."""
        ...

    async def find_next_wake(self, after: float) -> float | None:
        """Return the earliest time later than `after` at which a waiting job continues; None if none does by itself."""
        ...

    async def save(self, change: JobChange) -> None:
        """Store a change. The call may be repeated if its outcome is unknown.

        Raises `JobNotFound`, `JobIdInUse` if a job has the id of a new child, or `JobConflict` if another writer has
        changed the job.
        """
        ...

    async def events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        """Return up to `limit` events with ids greater than `after`, in order."""
        ...

    async def read_documents(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return the contents of those documents that exist."""
        ...

    async def list_schedules(self) -> Sequence[Schedule]:
        """Return all schedules."""
        ...

    async def put_schedule(self, schedule: Schedule) -> None:
        """Store a schedule in place of the one of its name."""
        ...

    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule, if it exists."""
        ...

    async def fire(self, schedule: Schedule, next_at: float, row: NewRow | None) -> bool:
        """Set the next time of a schedule, and create a job, unless `row` is None. Returns whether this call did so.

        It did not if the schedule is no longer as given: another process was faster.
        """
        ...

    async def list_notifications(self) -> Sequence[Notification]:
        """Return the notifications that have not been sent, oldest first.

        A change that gives a job with a `notify_url` one of the statuses `NOTIFIED` creates one.
        """
        ...

    async def delete_notification(self, notification: Notification) -> None:
        """Delete a notification: it was sent, or will not be."""
        ...

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """Return a lock against the other daemons that share the store; it does not exclude tasks of this one.

        A daemon that dies while it holds the lock loses it. Raises `StoreUnavailable` if another one holds it for long.
        """
        ...

    async def delete(self, job_id: str) -> None:
        """Delete a job, its descendants, their events, and the documents to which no other job refers.

        Raises `JobNotFound`.
        """
        ...


OpenJobStore: TypeAlias = Callable[[], AbstractAsyncContextManager[JobStore]]


class JobHandler(Protocol):
    """A kind of jobs. It adds nothing to `jobs/`: a new kind is a new handler."""

    @property
    def kind(self) -> str:
        """The name of the kind, which is stored with each job."""
        ...

    def first_action(self, job: StoredJob) -> RunPhase | Wait:
        """Return what a new job does first."""
        ...

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """Run a phase and return what comes next.

        It may store steps on the way. What it passes to `writer.stage` is stored together with the returned action.
        An exception is an attempt that failed: the last one fails the job.
        """
        ...

    def on_cancel(self, writer: JobWriter) -> None:
        """Stage what a cancelled job still has to store, such as results for calls that were not run."""
        ...


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """How many phases of a queue run and wait, and how many may run."""

    running: int
    waiting: int
    limit: int


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """The status of a scheduler. `name` is a value of the setting `jobs.scheduler`."""

    name: str
    queues: Mapping[str, QueueStatus]


class JobScheduler(Protocol):
    """Decides when and where the phases of jobs run. What is to run is stored with each job.

    A scheduler reads and writes jobs through `JobWriters`, and subscribes to their changes: a change that makes a
    waiting job `queued`, such as outputs that its client has posted, continues the job. A phase runs at least once; if
    its process has lost the job meanwhile, what it returns is rejected by the store (`JobConflict`).
    """

    async def start(self, job_id: str, action: StoredAction) -> None:
        """Execute a job that has been created with this action.

        Does nothing if it is executed already or is no longer queued. Raises `StoreUnavailable`.
        """
        ...

    async def wake(self, job_id: str) -> None:
        """End the wait of a job; if it does not wait, its next wait ends at once. Does nothing if the job has ended.

        A wait for a client or a person (`Wait.is_for_client`) does not end: a wake that comes late must not move a job
        on which somebody is about to decide.

        A wake survives a restart once the call has returned. The phase that runs next checks what it waited for: a job
        may be woken without need. Raises `StoreUnavailable`, `JobNotFound` and `JobNotReadable`.
        """
        ...

    async def cancel(self, job_id: str) -> StoredJob:
        """Cancel a job and its descendants: immediately, or when the phase that it is in ends.

        Raises `StoreUnavailable`, `JobNotFound`, `JobNotReadable`, and `JobConflict` if the job has completed or
        failed.
        """
        ...

    async def recover(self) -> None:
        """Continue the jobs that an earlier process left unfinished. Raises `StoreUnavailable`."""
        ...

    def status(self) -> SchedulerStatus:
        """Return what the scheduler is doing."""
        ...

    async def close(self) -> None:
        """Stop every phase where it is: the stored state can be continued."""
        ...


class NotificationSender(Protocol):
    """Sends notifications to the addresses of clients."""

    async def send(self, url: str, body: bytes, key: str) -> None:
        """POST a notification, with retries. Failures are reported, not raised. Repeated calls have the same `key`."""
        ...
