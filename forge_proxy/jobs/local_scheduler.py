"""Schedules the jobs of one daemon, and continues those that an earlier daemon left unfinished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from tenacity import AsyncRetrying, wait_fixed

from forge_proxy.core.jobs.actions import AwaitChildren, Finished, RunPhase, Wait, write_action
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound, JobNotReadable
from forge_proxy.core.jobs.records import JobHead, NewEvent, StoredJob
from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable
from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.jobs.phases import PhaseDeps, run_phase, store_cancelled
from forge_proxy.jobs.ports import JobStore, OpenJobStore
from forge_proxy.jobs.queues import JobQueues, QueueStatus
from forge_proxy.jobs.retries import retry_if_store_may_return
from forge_proxy.jobs.wake_timer import WakeTimer
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.jobs.writers import JobWriters

T = TypeVar("T")

_RETRY_SECONDS = 1.0
"""Seconds between retries of an unavailable store."""
_CLIENT_CONTINUES = ("requires_action", "halted")
"""Statuses that only a client or a person ends."""


class LocalScheduler:
    """Executes all jobs of a daemon, which alone uses the store.

    `open_store` is entered on first use and exited by `close`; `on_change` is called with the old and the new record of
    a changed job.
    """

    def __init__(
        self,
        open_store: OpenJobStore,
        deps: PhaseDeps,
        queues: Mapping[str, int],
        on_change: Callable[[StoredJob, StoredJob], None],
    ) -> None:
        self._deps = deps
        self._on_change = on_change
        self._queues = JobQueues(queues)
        self._writers = JobWriters(open_store, deps.now, self._recover, self._changed)
        self._timer = WakeTimer(self._on_due, deps.now)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def store(self) -> JobStore:
        """Return the store. Opening it continues unfinished jobs. Raises `StoreUnavailable`."""
        return await self._writers.store()

    @asynccontextmanager
    async def lock_job(self, job_id: str) -> AsyncGenerator[JobWriter]:
        """Lock a job for a request that reads and then changes it. Raises `StoreUnavailable` and `JobNotFound`."""
        writer = await self._writers.get(job_id)
        async with writer.lock():
            try:
                yield writer
            except StoreUnavailable:
                self._spawn(self._resolve_unknown_write(writer))
                raise

    async def start_if_queued(self, job_id: str) -> None:
        """Start a queued job that no task executes, such as one whose submission failed after it was stored."""
        writer = await self._writers.get(job_id)
        if writer.job.status == "queued" and writer.executions == 0:  # it may have started since it was read
            self.start(writer)

    def start(self, writer: JobWriter) -> None:
        """Start executing a job as soon as its queue permits."""
        writer.executions += 1
        self._spawn(self._execute(writer))

    async def wake(self, job_id: str) -> None:
        """Continue a job that waits. Does nothing if it does not wait."""
        async with self.lock_job(job_id) as writer:
            action = writer.action
            if not isinstance(action, Wait) or writer.job.finished or writer.executions:
                return
            event = NewEvent("status", {"status": "queued"})
            await writer.write(event, status="queued", action=write_action(action.then), wake_at=None)
            self.start(writer)

    async def cancel(self, job_id: str) -> StoredJob:
        """Cancel a job and the jobs below it: immediately, or when the step that it is in ends.

        Raises `JobConflict` if the job has completed or failed.
        """
        store = await self.store()
        children = await store.unfinished(parent=job_id)
        async with self.lock_job(job_id) as writer:
            job = writer.job
            if job.status in ("completed", "failed"):
                raise JobConflict(f"the {job.kind} {job_id} is {job.status}: there is nothing to cancel")
            if not job.finished:
                if writer.executions == 0 and not children:
                    await store_cancelled(writer, self._deps.kinds)
                elif not job.cancel_requested:
                    await writer.write(NewEvent("cancel_requested", {}), cancel_requested=True)
        for child in children:
            with suppress(JobConflict, JobNotFound):  # it has ended meanwhile
                await self.cancel(child.id)
        return writer.job

    async def run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a store operation, shielded from cancellation by a disconnecting client.

        A cancelled operation would discard its database connection.
        """
        return await asyncio.shield(self._spawn(work))

    def drop_writer(self, job_id: str) -> None:
        """Drop the writer of a deleted job."""
        self._writers.drop(job_id)

    def status(self) -> Mapping[str, QueueStatus]:
        """Return the status of the queues."""
        return self._queues.status()

    async def close(self) -> None:
        """Stop every job where it is: the stored state can be continued."""
        self._timer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._writers.close()

    def _changed(self, before: StoredJob, after: StoredJob) -> None:
        if not after.finished:
            self._timer.set(after.wake_at)
        self._on_change(before, after)
        if after.finished and not before.finished and after.parent is not None:
            self._spawn(self._continue(after.parent))

    async def _recover(self, store: JobStore) -> Callable[[], None]:
        """Return a function that continues the jobs that an earlier daemon left unfinished."""
        unfinished = await store.unfinished()
        parents = {head.parent for head in unfinished}
        now = self._deps.now()
        ready = [head.id for head in unfinished if head.id not in parents and _can_continue(head, now)]
        cancelled = [head.id for head in unfinished if head.id in parents and head.cancel_requested]
        wake_at = await store.next_wake()

        def continue_jobs() -> None:
            self._timer.set(wake_at)
            for job_id in ready:
                self._spawn(self._continue(job_id))
            for job_id in cancelled:
                self._spawn(self._cancel_children(job_id))

        return continue_jobs

    async def _cancel_children(self, job_id: str) -> None:
        store = await self.store()
        for child in await store.unfinished(parent=job_id):
            with suppress(JobConflict, JobNotFound):  # it has ended meanwhile
                await self.cancel(child.id)

    def _on_due(self) -> None:
        self._spawn(self._wake_due())

    async def _wake_due(self) -> None:
        """Continue the jobs whose time has come."""
        async for attempt in _until_store_returns():
            with attempt:
                store = await self.store()
                for job_id in await store.due(self._deps.now()):
                    await self._continue(job_id)
                self._timer.set(await store.next_wake())

    async def _continue(self, job_id: str) -> None:
        """Execute a job that may be able to continue."""
        try:
            async for attempt in _until_store_returns():
                with attempt:
                    writer = await self._writers.get(job_id)
                    writer.is_woken = True
                    if writer.executions == 0:
                        self.start(writer)
        except (StoreUnavailable, JobNotFound, JobNotReadable) as error:
            self._deps.report(job_id, error)

    async def _resolve_unknown_write(self, writer: JobWriter) -> None:
        """Determine whether a write of unknown outcome was stored, and start the job if it must continue."""
        await asyncio.sleep(_RETRY_SECONDS)
        with suppress(StoreInUse):
            async for attempt in _until_store_returns():
                with attempt:
                    async with writer.change_lock:
                        await writer.resolve_outcome()
                        if writer.job.status == "queued" and writer.executions == 0:
                            self.start(writer)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _execute(self, writer: JobWriter) -> None:
        """Run the phases of a job until it ends or waits."""
        is_first = True
        try:
            while True:
                writer.is_woken = False
                if (phase := await self._next_phase(writer)) is not None:
                    await self._run_in_slot(writer, phase, is_first=is_first)
                    is_first = False
                elif not writer.is_woken:  # else what it waits for happened while it was read
                    return
        except (StoreUnavailable, JobConflict, JobNotFound, JobNotReadable) as error:
            self._deps.report(writer.job.id, error)  # another daemon or a deletion has taken the job
            self._writers.drop(writer.job.id)
        finally:
            writer.executions -= 1

    async def _next_phase(self, writer: JobWriter) -> RunPhase | None:
        """Return the phase that the job runs now; None if it has ended or waits."""
        if writer.job.finished:
            return None
        match writer.action:
            case RunPhase() as phase:
                return phase
            case Wait() as action:
                is_ready = action.until is not None and action.until <= self._deps.now()
            case AwaitChildren() as action:
                is_ready = await self._children_have_ended(writer.job.id)
            case Finished():
                return None
        if is_ready and writer.cancel.is_set():
            async with writer.change_lock:
                await store_cancelled(writer, self._deps.kinds, wait=True)
            return None
        return action.then if is_ready else None

    async def _children_have_ended(self, job_id: str) -> bool:
        """Return whether all child jobs have ended; start those that have not."""
        async for attempt in _until_store_returns():
            with attempt:
                children = await (await self.store()).unfinished(parent=job_id)
                for child in children:
                    if child.status == "queued":
                        self._spawn(self._continue(child.id))
                return not children
        raise AssertionError("unreachable: the retries do not end")

    async def _run_in_slot(self, writer: JobWriter, phase: RunPhase, *, is_first: bool) -> None:
        try:
            async with self._queues.slot(phase.queue, writer.cancel):
                if is_first:
                    event = NewEvent("status", {"status": "running"})
                    action = write_action(phase)
                    await writer.write(event, status="running", action=action, wake_at=None, wait=True)
                await run_phase(writer, phase, self._deps, await self.store())
        except Cancelled:
            async with writer.change_lock:
                await store_cancelled(writer, self._deps.kinds, wait=True)


def _until_store_returns() -> AsyncRetrying:
    return AsyncRetrying(retry=retry_if_store_may_return, wait=wait_fixed(_RETRY_SECONDS))


def _can_continue(job: JobHead, now: float) -> bool:
    """Return whether the daemon can continue an unfinished job without its client and without waiting."""
    if job.cancel_requested:
        return True
    return job.status not in _CLIENT_CONTINUES and (job.wake_at is None or job.wake_at <= now)
