"""`JobScheduler` over Temporal: several daemons share the jobs of one PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from forge_proxy.core.jobs.actions import StoredAction
from forge_proxy.core.jobs.errors import JobConflict
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore, QueueStatus, SchedulerStatus
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.temporal.activities import JobActivities
from forge_proxy.temporal.ports import OpenOutbox
from forge_proxy.temporal.relay import OutboxRelay
from forge_proxy.temporal.workflow import CONTROL_QUEUE, JobWorkflow

_RETRY_SECONDS = 1.0
_STICKY = timedelta(seconds=2)
"""How long a workflow waits for the daemon that has it in its cache, before any daemon may continue it."""
_POLLS = 1
"""Of each worker. Temporal may give a phase to each poll of a stopped daemon, until heartbeats are missing."""
_HEARTBEATS = timedelta(seconds=1)
"""The interval in which heartbeats are sent, and cancellations received."""


@dataclass(frozen=True, slots=True)
class TemporalPlace:
    """Where the Temporal server is, and what this daemon does there. `connect` raises `RuntimeError`."""

    connect: Callable[[], Awaitable[Client]]
    queue_prefix: str
    queues: Mapping[str, Callable[[], int]]
    """The queues that this daemon works on, with the number of phases that it runs at a time."""
    report_unavailable: Callable[[str], None]
    """Called with the reason when the server becomes unavailable."""
    report_connected: Callable[[], None]


class TemporalScheduler:
    """`jobs.ports.JobScheduler`. The writers must be those of a shared store."""

    def __init__(self, writers: JobWriters, deps: PhaseDeps, open_outbox: OpenOutbox, place: TemporalPlace) -> None:
        self._writers = writers
        self._open_outbox = open_outbox
        self._place = place
        self._activities = JobActivities(writers, deps)
        self._relay = OutboxRelay(writers, open_outbox, place.queue_prefix)
        self._tasks = BackgroundTasks()
        writers.subscribe(self._changed, self._opened)

    async def start(self, job_id: str, action: StoredAction) -> None:
        """See the port. The store has added the message with the job."""
        self._relay.notify()

    async def wake(self, job_id: str) -> None:
        """See the port."""
        head = await (await self._writers.store()).head(job_id)
        if not head.finished:
            await (await self._open_outbox()).add([job_id], "wake")
            self._relay.notify()

    async def cancel(self, job_id: str) -> StoredJob:
        """See the port. The daemon that runs the job stores that it was cancelled."""
        job = await (await self._writers.store()).get(job_id)
        if job.status in ("completed", "failed"):
            raise JobConflict(f"the {job.kind} {job_id} is {job.status}: there is nothing to cancel")
        if job.finished:
            return job
        await (await self._open_outbox()).add([job_id], "cancel")
        self._relay.notify()
        return replace(job, cancel_requested=True)

    async def recover(self) -> None:
        """See the port. Jobs that Temporal knows are not started again."""
        store = await self._writers.store()
        unfinished = [head.id for head in await store.unfinished() if head.parent is None]
        await (await self._open_outbox()).add(unfinished, "start")
        self._relay.notify()

    def status(self) -> SchedulerStatus:
        """See the port. Only phases of this daemon are counted; those that wait are known to Temporal only."""
        running, prefix = self._activities.running, self._place.queue_prefix
        queues = {name: QueueStatus(running[prefix + name], 0, limit()) for name, limit in self._place.queues.items()}
        return SchedulerStatus("temporal", queues)

    async def close(self) -> None:
        """See the port."""
        await self._tasks.close()

    def _changed(self, before: StoredJob, after: StoredJob) -> None:
        if after.status == "queued" and after.action != before.action:
            self._relay.notify()

    async def _opened(self, store: JobStore) -> Callable[[], None]:
        return lambda: self._tasks.spawn(self._serve()) and None

    async def _serve(self) -> None:
        """Work for Temporal until cancelled; if the server or the store is unavailable, try again."""
        reported = ""
        while True:
            try:
                client = await self._place.connect()
                reported = ""
                async with asyncio.TaskGroup() as group:
                    for worker in self._build_workers(client):
                        group.create_task(worker.run())
                    group.create_task(self._relay_messages(client))
                    self._place.report_connected()
            except* (RuntimeError, RPCError, OSError) as errors:
                reason = str(errors.exceptions[0])
                if reason != reported:
                    reported = reason
                    self._place.report_unavailable(reason)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _relay_messages(self, client: Client) -> None:
        reported = ""
        while True:
            try:
                await self._relay.run(client)
            except (RPCError, StoreUnavailable) as error:
                if str(error) != reported:
                    reported = str(error)
                    self._place.report_unavailable(reported)
                await asyncio.sleep(_RETRY_SECONDS)

    def _build_workers(self, client: Client) -> list[Worker]:
        prefix = self._place.queue_prefix
        control = Worker(
            client, task_queue=prefix + CONTROL_QUEUE, workflows=[JobWorkflow],
            activities=[self._activities.load, self._activities.cancel],
            # The sandbox would import each module again; the workflow is one small module that is tested by replay.
            workflow_runner=UnsandboxedWorkflowRunner(),
            sticky_queue_schedule_to_start_timeout=_STICKY,
            max_concurrent_workflow_task_polls=2, max_concurrent_activity_task_polls=_POLLS,
        )  # fmt: skip
        return [
            control,
            *(self._build_worker(client, prefix + name, limit()) for name, limit in self._place.queues.items()),
        ]

    def _build_worker(self, client: Client, task_queue: str, limit: int) -> Worker:
        return Worker(
            client, task_queue=task_queue, activities=[self._activities.run_phase],
            max_concurrent_activities=limit, max_concurrent_activity_task_polls=_POLLS,
            max_heartbeat_throttle_interval=_HEARTBEATS, default_heartbeat_throttle_interval=_HEARTBEATS,
        )  # fmt: skip
