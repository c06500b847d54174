"""`JobScheduler` over Temporal: several daemons share the jobs of one PostgreSQL database.

It does not import temporalio, which takes most of a second: `service.py` does, once the daemon listens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from forge_proxy.core.jobs.actions import StoredAction
from forge_proxy.core.jobs.errors import JobConflict
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore, QueueStatus, SchedulerStatus
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.temporal.ports import OpenOutbox, TemporalDeps, TemporalOptions


class TemporalScheduler:
    """`jobs.ports.JobScheduler`. The writers must be those of a shared store."""

    def __init__(
        self, writers: JobWriters, phases: PhaseDeps, open_outbox: OpenOutbox, options: TemporalOptions
    ) -> None:
        self._writers = writers
        self._open_outbox = open_outbox
        self._options = options
        self._has_messages = asyncio.Event()
        self._running = Counter[str]()
        self._deps = TemporalDeps(writers, phases, open_outbox, options, self._has_messages, self._running)
        self._tasks = BackgroundTasks()
        writers.subscribe(self._on_change, self._on_open)

    async def start(self, job_id: str, action: StoredAction) -> None:
        """See `JobScheduler`. The store has added the message with the job."""
        self._has_messages.set()

    async def wake(self, job_id: str) -> None:
        """See `JobScheduler`."""
        head = await (await self._writers.store()).head(job_id)
        if not head.is_finished:
            await (await self._open_outbox()).add([job_id], "wake")
            self._has_messages.set()

    async def cancel(self, job_id: str) -> StoredJob:
        """See `JobScheduler`. The daemon that runs the job stores that it was cancelled."""
        job = await (await self._writers.store()).get(job_id)
        if job.status in ("completed", "failed"):
            raise JobConflict(f"the {job.kind} {job_id} is {job.status}: there is nothing to cancel")
        if job.is_finished:
            return job
        await (await self._open_outbox()).add([job_id], "cancel")
        self._has_messages.set()
        return replace(job, cancel_requested=True)

    async def recover(self) -> None:
        """See `JobScheduler`. Jobs that Temporal knows are not started again."""
        store = await self._writers.store()
        unfinished = [head.id for head in await store.list_unfinished() if head.parent is None]
        await (await self._open_outbox()).add(unfinished, "start")
        self._has_messages.set()

    def status(self) -> SchedulerStatus:
        """See `JobScheduler`. Only phases of this daemon are counted; those that wait are known to Temporal only."""
        running, prefix = self._running, self._options.queue_prefix
        queues = {name: QueueStatus(running[prefix + name], 0, limit()) for name, limit in self._options.queues.items()}
        return SchedulerStatus("temporal", queues)

    async def close(self) -> None:
        """See `JobScheduler`."""
        await self._tasks.close()

    def _on_change(self, before: StoredJob, after: StoredJob) -> None:
        if after.status == "queued" and after.action != before.action:
            self._has_messages.set()

    async def _on_open(self, store: JobStore) -> Callable[[], None]:
        return lambda: self._tasks.spawn(self._serve()) and None

    async def _serve(self) -> None:
        module = await asyncio.to_thread(import_module, "forge_proxy.temporal.service")
        await module.serve(self._deps)
