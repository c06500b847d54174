"""Schedules the jobs of one daemon, and continues those that an earlier daemon left unfinished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from forge_proxy.core.jobs.actions import AwaitChildren, Finished, RunPhase, StoredAction, Wait, write_action
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound, JobNotReadable
from forge_proxy.core.jobs.records import CLIENT_CONTINUES, JobHead, NewEvent, StoredJob
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.jobs.phases import PhaseDeps, run_phase, store_cancelled, store_running
from forge_proxy.jobs.ports import JobStore, SchedulerStatus
from forge_proxy.jobs.queues import JobQueues
from forge_proxy.jobs.retries import retry_until_store_returns
from forge_proxy.jobs.wake_timer import WakeTimer
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.jobs.writers import JobWriters


class LocalScheduler:
    """`jobs.ports.JobScheduler` in one process, which alone uses the store. `queues` are the limits of the queues."""

    def __init__(self, writers: JobWriters, deps: PhaseDeps, queues: Mapping[str, Callable[[], int]]) -> None:
        self._writers = writers
        self._deps = deps
        self._queues = JobQueues(queues)
        self._timer = WakeTimer(self._on_due, deps.now)
        self._tasks = BackgroundTasks()
        writers.subscribe(self._on_change, self._read_unfinished)

    async def start(self, job_id: str, action: StoredAction) -> None:
        """See `JobScheduler`."""
        writer = await self._writers.get(job_id)
        if writer.job.status == "queued" and writer.executions == 0:  # it may have started since it was read
            self._start(writer)

    async def wake(self, job_id: str) -> None:
        """See `JobScheduler`."""
        async with self._writers.lock(job_id) as writer:
            if writer.job.is_finished or writer.job.wake_requested:
                return
            if isinstance(action := writer.action, Wait):
                if action.is_for_client:
                    return
                event = NewEvent("status", {"status": "queued"})
                await writer.write(event, status="queued", action=write_action(action.then), wake_at=None)
            else:
                await writer.write(NewEvent("wake_requested", {}), wake_requested=True)

    async def cancel(self, job_id: str) -> StoredJob:
        """See `JobScheduler`."""
        store = await self._writers.store()
        async with self._writers.lock(job_id) as writer:
            job = writer.job
            if job.status in ("completed", "failed"):
                raise JobConflict(f"the {job.kind} {job_id} is {job.status}: there is nothing to cancel")
            children = await store.list_unfinished(parent=job_id)  # no more are created once cancellation is requested
            if not job.is_finished:
                if writer.executions == 0 and not children:
                    await store_cancelled(writer, self._deps.kinds)
                elif not job.cancel_requested:
                    await writer.write(NewEvent("cancel_requested", {}), cancel_requested=True)
        if children:
            await self._tasks.run_shielded(self._cancel_all(children))
        return writer.job

    async def recover(self) -> None:
        """See `JobScheduler`."""
        await self._writers.store()

    def status(self) -> SchedulerStatus:
        """See `JobScheduler`."""
        return SchedulerStatus("local", self._queues.status())

    async def close(self) -> None:
        """See `JobScheduler`."""
        self._timer.close()
        await self._tasks.close()

    def _on_change(self, before: StoredJob, after: StoredJob) -> None:
        if after.is_finished:
            if not before.is_finished and after.parent is not None:
                self._tasks.spawn(self._continue(after.parent))
            return
        self._timer.set(after.wake_at)
        if after.status == "queued" and after.action != before.action:
            self._tasks.spawn(self._continue(after.id))

    async def _read_unfinished(self, store: JobStore) -> Callable[[], None]:
        """Return a function that continues the jobs that an earlier daemon left unfinished."""
        unfinished = await store.list_unfinished()
        parents = {head.parent for head in unfinished}
        cancelled = {head.id for head in unfinished if head.cancel_requested}
        now = self._deps.now()
        ready = [head.id for head in unfinished if head.id not in parents and _can_continue(head, now)]
        below_cancelled = [head for head in unfinished if head.parent in cancelled]
        wake_at = await store.find_next_wake(now)

        def continue_jobs() -> None:
            self._timer.set(wake_at)
            for job_id in ready:
                self._tasks.spawn(self._continue(job_id))
            self._tasks.spawn(self._cancel_all(below_cancelled))

        return continue_jobs

    async def _cancel_all(self, heads: Sequence[JobHead]) -> None:
        for head in heads:
            async for attempt in retry_until_store_returns():
                with attempt, suppress(JobConflict, JobNotFound):  # it has ended meanwhile
                    await self.cancel(head.id)

    def _on_due(self) -> None:
        self._tasks.spawn(self._wake_due())

    async def _wake_due(self) -> None:
        """Continue the jobs whose time has come."""
        async for attempt in retry_until_store_returns():
            with attempt:
                store, now = await self._writers.store(), self._deps.now()
                for job_id in await store.list_due(now):
                    await self._continue(job_id)
                self._timer.set(await store.find_next_wake(now))

    async def _continue(self, job_id: str) -> None:
        """Execute a job that may be able to continue."""
        try:
            async for attempt in retry_until_store_returns():
                with attempt:
                    writer = await self._writers.get(job_id)
                    writer.is_woken = True
                    if writer.executions == 0:
                        self._start(writer)
        except (StoreUnavailable, JobNotFound, JobNotReadable) as error:
            self._deps.report(job_id, error)

    def _start(self, writer: JobWriter) -> None:
        writer.executions += 1
        self._tasks.spawn(self._execute(writer))

    async def _execute(self, writer: JobWriter) -> None:
        """Run the phases of a job until it ends or waits."""
        try:
            while True:
                writer.is_woken = False
                if (phase := await self._next_phase(writer)) is not None:
                    async for attempt in retry_until_store_returns():  # a phase reads the store, too
                        with attempt:
                            await self._run_in_slot(writer, phase)
                elif not writer.is_woken:  # else what it waits for happened while it was read
                    return
        except Exception as error:  # noqa: BLE001 - it must not affect other jobs
            self._deps.report(writer.job.id, error)  # such as: another daemon or a deletion has taken the job
            self._writers.drop(writer.job.id)
        finally:
            writer.executions -= 1

    async def _next_phase(self, writer: JobWriter) -> RunPhase | None:
        """Return the phase that the job runs now; None if it has ended or waits."""
        if writer.job.is_finished:
            return None
        match writer.action:
            case RunPhase() as phase:
                return phase
            case Wait() as action:
                is_due = action.until is not None and action.until <= self._deps.now()
                is_woken = writer.job.wake_requested and not action.is_for_client
                is_ready = is_due or is_woken or writer.job.cancel_requested
            case AwaitChildren() as action:
                is_ready = await self._children_have_ended(writer.job.id)
            case Finished():
                return None
        return action.then if is_ready else None

    async def _children_have_ended(self, job_id: str) -> bool:
        """Return whether all child jobs have ended; start those that have not."""
        async for attempt in retry_until_store_returns():
            with attempt:
                children = await (await self._writers.store()).list_unfinished(parent=job_id)
                for child in children:
                    if child.status == "queued":
                        self._tasks.spawn(self._continue(child.id))
                return not children
        raise AssertionError("unreachable: the retries do not end")

    async def _run_in_slot(self, writer: JobWriter, phase: RunPhase) -> None:
        try:
            async with self._queues.slot(phase.queue, writer.cancel):
                async with writer.change_lock:
                    if writer.job.is_finished:  # it was cancelled while this task waited
                        return
                    if writer.job.status != "running":
                        await store_running(writer, phase)
                await run_phase(writer, phase, self._deps, await self._writers.store())
        except Cancelled:
            async with writer.change_lock:
                if not writer.job.is_finished:
                    await store_cancelled(writer, self._deps.kinds, wait=True)


def _can_continue(head: JobHead, now: float) -> bool:
    """Return whether the daemon can continue an unfinished job without its client and without waiting."""
    if head.cancel_requested:
        return True
    is_ready = head.wake_requested or head.wake_at is None or head.wake_at <= now
    return head.status not in CLIENT_CONTINUES and is_ready
