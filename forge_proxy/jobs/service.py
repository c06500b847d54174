"""The operations on jobs of every kind: get, list, cancel, delete, follow events. A kind adds its own to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress

from forge_proxy.core.jobs.actions import NewJob, read_action
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound
from forge_proxy.core.jobs.records import IdempotencyClaim, JobEvent, JobHead, JobStatus, NewEvent, StoredJob
from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable
from forge_proxy.jobs import retries
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.notifications import JobNotifications
from forge_proxy.jobs.notifier import JobNotifier
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobFilter, JobScheduler, JobStore, NewRow, NotificationSender, SchedulerStatus
from forge_proxy.jobs.retention import JobRetention
from forge_proxy.jobs.schedules import JobSchedules
from forge_proxy.jobs.writer import JobWriter, read_state
from forge_proxy.jobs.writers import JobWriters

_EVENTS_PAGE = 200


class Jobs:
    """All jobs of a daemon, executed by a scheduler. The store is opened on first use and closed by `close`.

    Every method raises `StoreUnavailable`; those on one job also raise `JobNotFound`.
    """

    def __init__(
        self,
        writers: JobWriters,
        scheduler: JobScheduler,
        deps: PhaseDeps,
        on_status: Callable[[StoredJob], None] = lambda _: None,
        *,
        retention_days: float | None = None,
        poll_seconds: float | None = None,
        sender: NotificationSender | None = None,
    ) -> None:
        """`on_status` is called after each change of status. Without a `sender` no client is notified.

        `retention_days`: jobs are deleted that long after they have ended; None keeps them. `poll_seconds`: the
        interval in which event feeds look for events of other daemons; None if there are none.
        """
        self._poll_seconds = poll_seconds
        self._writers = writers
        self._scheduler = scheduler
        self._deps = deps
        self._on_status = on_status
        self._notifier = JobNotifier()
        self._tasks = BackgroundTasks()
        self._retention = JobRetention(retention_days, deps.now, self._forget) if retention_days else None
        writers.subscribe(self._on_change, self._on_open)
        self._schedules = JobSchedules(
            writers.store, deps, self._start_stored, self._tasks, is_shared=poll_seconds is not None
        )
        if sender is not None:
            notifications = JobNotifications(sender, self._tasks)
            writers.subscribe(notifications.on_change, notifications.open)

    async def submit(
        self,
        new: NewJob,
        events: Sequence[NewEvent] = (),
        *,
        claim: IdempotencyClaim | None = None,
        owner: str | None = None,
    ) -> StoredJob:
        """Store a job and start it. If the key of `claim` was used before, return the job that was stored with it.

        Raises `JobConflict` if the key was used for a different submission.
        """
        row = self._deps.kinds.build_row(new, self._deps.now(), events, owner=owner)
        return await self._tasks.run_shielded(self._create(row, claim))

    async def find_claimed(self, claim: IdempotencyClaim) -> StoredJob | None:
        """Return the job that was stored with the key of `claim`; None if there is none.

        Raises `JobConflict` if its submission was different.
        """
        return await (await self._writers.store()).find_claimed(claim)

    async def _create(self, row: NewRow, claim: IdempotencyClaim | None) -> StoredJob:
        store = await self._writers.store()
        try:
            stored = await store.create(row, claim)
        except StoreUnavailable:
            self._tasks.spawn(self._start_if_stored(row.job.id))
            raise
        if stored.id == row.job.id:
            self._on_status(stored)
        await self._start(stored)
        return stored

    async def _start_if_stored(self, job_id: str) -> None:
        """Start a job whose creation had an unknown outcome: its client may never repeat the submission."""
        with suppress(JobNotFound, StoreInUse):
            async for attempt in retries.retry_until_store_returns():
                with attempt:
                    await self._start_stored(job_id)

    async def _start_stored(self, job_id: str) -> None:
        await self._start(await self.get(job_id))

    async def _start(self, job: StoredJob) -> None:
        if job.status == "queued":
            await self._scheduler.start(job.id, read_action(job.action))

    async def get(self, job_id: str) -> StoredJob:
        """Return the current record of a job."""
        return await (await self._writers.store()).get(job_id)

    async def read_state(self, job: StoredJob) -> str:
        """Return the job's own state, not packed. Raises `JobNotReadable`."""
        return await read_state(await self._writers.store(), job)

    async def head(self, job_id: str) -> JobHead:
        """Return the list fields of a job."""
        return await (await self._writers.store()).head(job_id)

    async def list(self, which: JobFilter, *, before: str | None, limit: int) -> Sequence[JobHead]:
        """Return jobs, newest first; with `before` only those older than that job."""
        return await (await self._writers.store()).list(which, before=before, limit=limit)

    async def list_descendants(self, roots: Sequence[str]) -> Sequence[JobHead]:
        """Return the descendants of these top-level jobs, oldest first."""
        return await (await self._writers.store()).list_descendants(roots)

    async def cancel(self, job_id: str) -> StoredJob:
        """Cancel a job and its descendants. Raises `JobConflict` if it has completed or failed."""
        return await self._scheduler.cancel(job_id)

    async def wake(self, job_id: str) -> None:
        """End the wait of a job, or its next wait (`JobScheduler.wake`)."""
        await self._scheduler.wake(job_id)

    async def repeat(self, name: str, interval: float | None, kind: str) -> None:
        """Create a job of a kind every `interval` seconds; None ends the schedule (`JobSchedules.repeat`)."""
        await self._schedules.repeat(name, interval, kind)

    def lock(self, job_id: str) -> AbstractAsyncContextManager[JobWriter]:
        """Lock a job for a request that reads and then changes it. A change to the status `queued` continues the job.

        Raises `JobNotReadable`.
        """
        return self._writers.lock(job_id)

    def status(self) -> SchedulerStatus:
        """Return what the scheduler is doing."""
        return self._scheduler.status()

    async def count_unfinished(self) -> Mapping[JobStatus, int] | None:
        """Return the number of jobs of each status that is not final; None if the store has not been opened yet."""
        store = self._writers.store_if_open
        return None if store is None else await store.count_unfinished()

    async def delete(self, job_id: str) -> None:
        """Delete a job that has ended, and its descendants. Raises `JobConflict` if it has not."""
        store = await self._writers.store()
        head = await store.head(job_id)
        if not head.is_finished:
            raise JobConflict(f"the {head.kind} {job_id} is {head.status}: cancel it first")
        await store.delete(job_id)
        self._forget(job_id)

    async def follow_events(self, job_id: str, after: int = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job with ids greater than `after` as they happen, until the job or the daemon ends."""
        store = await self._writers.store()
        while not self._notifier.closed:
            changed = self._notifier.get_event(job_id)
            events = await self._tasks.run_shielded(store.events(job_id, after=after, limit=_EVENTS_PAGE))
            for event in events:
                yield event
                after = event.id
            if events:
                continue
            head = await self._tasks.run_shielded(store.head(job_id))
            if head.last_event > after:  # an event was stored after the query
                continue
            if head.is_finished:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await changed.wait()

    async def resume(self) -> None:
        """Continue the jobs that an earlier daemon left unfinished."""
        await self._scheduler.recover()

    def end_feeds(self) -> None:
        """End all event feeds: the daemon is about to stop."""
        self._notifier.close()

    async def close(self) -> None:
        """Stop every job where it is: the stored state can be continued."""
        self.end_feeds()
        self._schedules.close()
        await self._tasks.close()
        await self._scheduler.close()
        await self._writers.close()

    async def _on_open(self, store: JobStore) -> Callable[[], None]:
        def start() -> None:
            if self._retention is not None:
                self._tasks.spawn(self._retention.run(store))
            self._schedules.check()

        return start

    def _forget(self, job_id: str) -> None:
        self._writers.drop(job_id)
        self._notifier.notify(job_id)

    def _on_change(self, before: StoredJob, after: StoredJob) -> None:
        if after.status != before.status:
            self._on_status(after)
        self._notifier.notify(after.id)
