"""The operations on jobs of every kind: get, list, cancel, delete, follow events. A kind adds its own to them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from forge_proxy.core.jobs.actions import NewJob
from forge_proxy.core.jobs.errors import JobConflict
from forge_proxy.core.jobs.records import IdempotencyClaim, JobEvent, JobHead, NewEvent, StoredJob
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.notifier import JobNotifier
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobFilter, OpenJobStore
from forge_proxy.jobs.writer import read_state

_EVENTS_PAGE = 200


class Jobs:
    """All jobs of a daemon. `open_store` is entered on first use and exited by `close`.

    Every method raises `StoreUnavailable`; those on one job also raise `JobNotFound`.
    """

    def __init__(
        self,
        open_store: OpenJobStore,
        deps: PhaseDeps,
        queues: Mapping[str, int],
        on_status: Callable[[StoredJob], None] = lambda _: None,
    ) -> None:
        """`on_status` is called after each change of status."""
        self._deps = deps
        self._on_status = on_status
        self._notifier = JobNotifier()
        self.scheduler = LocalScheduler(open_store, deps, queues, self._on_change)

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
        row = self._deps.kinds.new_row(new, self._deps.now(), events, owner=owner)
        stored = await (await self.scheduler.store()).create(row, claim)
        if stored.id == new.id:
            self._on_status(stored)
        if stored.status == "queued":
            await self.scheduler.start_if_queued(stored.id)
        return stored

    async def get(self, job_id: str) -> StoredJob:
        """Return the current record of a job."""
        return await (await self.scheduler.store()).get(job_id)

    async def read_state(self, job: StoredJob) -> str:
        """Return the job's own state, not packed. Raises `JobNotReadable`."""
        return await read_state(await self.scheduler.store(), job)

    async def head(self, job_id: str) -> JobHead:
        """Return the list fields of a job."""
        return await (await self.scheduler.store()).head(job_id)

    async def list(self, which: JobFilter, *, before: str | None, limit: int) -> Sequence[JobHead]:
        """Return jobs, newest first; with `before` only those older than that job."""
        return await (await self.scheduler.store()).list(which, before=before, limit=limit)

    async def cancel(self, job_id: str) -> StoredJob:
        """Cancel a job and the jobs below it. Raises `JobConflict` if it has completed or failed."""
        return await self.scheduler.cancel(job_id)

    async def delete(self, job_id: str) -> None:
        """Delete a job that has ended, and the jobs below it. Raises `JobConflict` if it has not."""
        store = await self.scheduler.store()
        head = await store.head(job_id)
        if not head.finished:
            raise JobConflict(f"the {head.kind} {job_id} is {head.status}: cancel it first")
        await store.delete(job_id)
        self.scheduler.drop_writer(job_id)
        self._notifier.notify(job_id)

    async def follow_events(self, job_id: str, after: int = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job with ids greater than `after` as they happen, until the job or the daemon ends."""
        store = await self.scheduler.store()
        while not self._notifier.closed:
            changed = self._notifier.event_of(job_id)
            events = await self.scheduler.run_shielded(store.events(job_id, after=after, limit=_EVENTS_PAGE))
            for event in events:
                yield event
                after = event.id
            if events:
                continue
            head = await self.scheduler.run_shielded(store.head(job_id))
            if head.last_event > after:  # an event was stored after the query
                continue
            if head.finished:
                return
            await changed.wait()

    async def resume(self) -> None:
        """Continue the jobs that an earlier daemon left unfinished."""
        await self.scheduler.store()

    def end_feeds(self) -> None:
        """End all event feeds: the daemon is about to stop."""
        self._notifier.close()

    async def close(self) -> None:
        """Stop every job where it is: the stored state can be continued."""
        self.end_feeds()
        await self.scheduler.close()

    def _on_change(self, before: StoredJob, after: StoredJob) -> None:
        if after.status != before.status:
            self._on_status(after)
        self._notifier.notify(after.id)


def new_job_id(prefix: str, now: float) -> str:
    """Return a new id such as `run_…`; ids of one kind sort by time of creation."""
    return f"{prefix}_{round(now * 1000):012x}{secrets.token_hex(6)}"
