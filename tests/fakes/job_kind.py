"""A kind of jobs whose phases are functions of a test, and the jobs of a daemon that has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from forge_proxy.core.jobs.actions import NewJob, NextAction, RunPhase, Wait, write_action
from forge_proxy.core.jobs.records import JobStatus, NewEvent, StoredJob
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore, NotificationSender
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.jobs.writers import JobWriters
from tests.fakes.owned_store import OwnedJobRepository

Phase = Callable[[JobWriter], Awaitable[NextAction]]
FIRST = RunPhase("first", "tests")
SECOND = RunPhase("second", "tests")


@dataclass
class ScriptedKind:
    """A kind of jobs (`jobs.ports.JobHandler`). `phases` are found by their names, or by `job id/name`."""

    phases: Mapping[str, Phase]
    kind: str = "test"
    ran: list[str] = field(default_factory=list[str])
    """`job id/name` of each phase that was started."""

    def first_action(self, job: StoredJob) -> RunPhase:
        """See `JobHandler`."""
        return FIRST

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """See `JobHandler`."""
        name = f"{writer.job.id}/{phase.phase}"
        self.ran.append(name)
        return await (self.phases.get(name) or self.phases[phase.phase])(writer)

    def on_cancel(self, writer: JobWriter) -> None:
        """See `JobHandler`."""
        writer.stage(NewEvent("cleaned_up", {}))


async def continue_job(jobs: Jobs, job_id: str) -> None:
    """Continue a job that waits for its client, as its client would."""
    async with jobs.lock(job_id) as writer:
        if isinstance(action := writer.action, Wait):
            event = NewEvent("status", {"status": "queued"})
            await writer.write(event, status="queued", action=write_action(action.then), wake_at=None)


@dataclass
class JobWorld:
    """The jobs of a daemon, and what it has reported. `now` is its clock, in seconds since 1970."""

    jobs: Jobs
    store: JobStore
    reports: list[tuple[str, Exception]]
    now: float = 1000.0

    async def submit(self, job_id: str, notify_url: str | None = None) -> StoredJob:
        """Submit a job of the scripted kind."""
        return await self.jobs.submit(NewJob(job_id, "test", "t", "{}", notify_url=notify_url))

    async def until(self, job_id: str, *statuses: JobStatus) -> StoredJob:
        """Wait until a job has one of the statuses."""
        async with asyncio.timeout(60):
            while (job := await self.store.get(job_id)).status not in statuses:
                assert not job.is_finished, job
                await asyncio.sleep(0.001)
        return job


@asynccontextmanager
async def job_world(
    store: JobStore,
    kind: ScriptedKind,
    queues: Mapping[str, int] | None = None,
    retention_days: float | None = None,
    sender: NotificationSender | None = None,
    *,
    is_real_time: bool = False,
) -> AsyncGenerator[JobWorld]:
    """Yield the jobs of a daemon that uses this store. Unless `is_real_time`, the test sets its clock."""
    reports: list[tuple[str, Exception]] = []

    @asynccontextmanager
    async def open_store() -> AsyncGenerator[JobStore]:
        yield store

    def now() -> float:
        return time.time() if is_real_time else world.now

    deps = PhaseDeps(JobKinds(kind), now, lambda job_id, error: reports.append((job_id, error)))
    writers = JobWriters(open_store, now)
    jobs = Jobs(
        writers,
        LocalScheduler(writers, deps, {name: partial(int, limit) for name, limit in (queues or {}).items()}),
        deps,
        retention_days=retention_days,
        sender=sender,
    )
    world = JobWorld(jobs, store, reports)
    try:
        yield world
    finally:
        await jobs.close()


@asynccontextmanager
async def local_world(
    url: str, kind: ScriptedKind, queues: Mapping[str, int] | None = None
) -> AsyncGenerator[JobWorld]:
    """Yield the jobs of a daemon that alone uses the database at a URL, and continues what is unfinished there."""
    store = await OwnedJobRepository.open(url)
    try:
        async with job_world(store, kind, queues, is_real_time=True) as world:
            await world.jobs.resume()
            yield world
    finally:
        await store.close()
