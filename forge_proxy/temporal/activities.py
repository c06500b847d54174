"""The activities of `forge-job`: they run the phases of jobs, and read and write the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from forge_proxy.core.jobs.actions import AwaitChildren, Finished, RunPhase, Wait
from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.jobs.phases import PhaseDeps, run_phase, store_cancelled, store_running
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.temporal.workflow import CANCEL, LOAD, Step

_HEARTBEAT_SECONDS = 1.0
_FINISHED = Step("finished")


class JobActivities:
    """Runs activities for all jobs of a daemon. The store decides what is done: an activity that comes late, or again,
    returns the stored step.
    """

    def __init__(self, writers: JobWriters, deps: PhaseDeps, running: Counter[str]) -> None:
        """`running` counts the running phases by task queue."""
        self._writers = writers
        self._deps = deps
        self._work: dict[str, asyncio.Task[Step]] = {}
        """The running phases by job."""
        self._running = running

    @activity.defn(name=LOAD)
    async def load(self, job_id: str) -> Step:
        """Return the next step of a job."""
        return await self._guard(job_id, self._next_step)

    @activity.defn(name=CANCEL)
    async def cancel(self, job_id: str) -> Step:
        """Cancel a job that runs no phase. Descendants that have not ended must be cancelled first."""
        return await self._guard(job_id, self._cancel)

    @activity.defn(dynamic=True)
    async def run_phase(self, args: Sequence[RawValue]) -> Step:
        """Run the phase that the activity is named after, unless that has been done."""
        job_id: str = activity.payload_converter().from_payload(args[0].payload, str)
        info = activity.info()
        self._running[info.task_queue] += 1
        try:
            return await self._guard(job_id, partial(self._run_watched, info.activity_type, info.attempt))
        finally:
            self._running[info.task_queue] -= 1

    async def _guard(self, job_id: str, work: Callable[[JobWriter], Awaitable[Step]]) -> Step:
        """Do something with the writer of a job. Errors are reported here: Temporal stores their types only."""
        try:
            writer = await self._writers.get(job_id)
            await writer.refresh()
            return await work(writer)
        except JobNotFound:
            return _FINISHED
        except Exception as error:  # noqa: BLE001 - an activity may fail for any reason; it is retried
            self._deps.report(job_id, error)  # such as: another daemon has taken the job
            raise ApplicationError("the log of the daemon has the details", type=type(error).__name__) from None

    async def _next_step(self, writer: JobWriter) -> Step:
        if writer.job.is_finished:
            return _FINISHED
        action = writer.action
        match action:
            case RunPhase():
                return _step("run_phase", action)
            case Wait():
                is_woken = writer.job.wake_requested and not action.is_for_client
                seconds = None if action.until is None else max(action.until - self._deps.now(), 0.0)
                return _step("wait", action.then, seconds=0.0 if is_woken else seconds)
            case AwaitChildren():
                return _step("await_children", action.then, children=await self._unfinished_children(writer))
            case Finished():
                return _FINISHED

    async def _cancel(self, writer: JobWriter) -> Step:
        if writer.job.is_finished:
            return _FINISHED
        if children := await self._unfinished_children(writer):
            return Step("await_children", children=children)
        async with writer.change_lock:
            await store_cancelled(writer, self._deps.kinds, wait=True)
        return _FINISHED

    async def _unfinished_children(self, writer: JobWriter) -> list[str]:
        store = await self._writers.store()
        return [child.id for child in await store.list_unfinished(parent=writer.job.id)]

    async def _run_watched(self, name: str, attempt: int, writer: JobWriter) -> Step:
        """Run a phase with heartbeats. If the job is cancelled, the phase ends itself; otherwise it is ended here."""
        job_id = writer.job.id
        await self._end_earlier_attempt(job_id)
        work = self._work[job_id] = asyncio.create_task(self._run(name, attempt, writer))
        beats = asyncio.create_task(_beat())
        try:
            while True:
                try:
                    return await asyncio.shield(work)
                except asyncio.CancelledError:
                    details = activity.cancellation_details()
                    if details is None or not details.cancel_requested or details.worker_shutdown or work.cancelled():
                        raise  # the daemon stops, or another one has the job
                    if (task := asyncio.current_task()) is not None:
                        task.uncancel()
                    writer.cancel.set()
        finally:
            for task in (work, beats):
                task.cancel()
            await asyncio.gather(work, beats, return_exceptions=True)
            if self._work.get(job_id) is work:
                del self._work[job_id]

    async def _end_earlier_attempt(self, job_id: str) -> None:
        """End an attempt that this daemon still runs: Temporal missed its heartbeats, and both would share a writer."""
        while (earlier := self._work.get(job_id)) is not None and not earlier.done():
            earlier.cancel()
            await asyncio.wait([earlier])

    async def _run(self, name: str, attempt: int, writer: JobWriter) -> Step:
        await writer.refresh()  # an earlier attempt may have been ended while it stored something
        phase = await self._due_phase(writer, name)
        if phase is None:
            return await self._next_step(writer)
        writer.executions += 1
        try:
            async with writer.change_lock:
                if attempt > 1 or writer.job.status != "running":  # from then on, an earlier attempt cannot save
                    await store_running(writer, phase)
            await run_phase(writer, phase, self._deps, await self._writers.store())
        except Cancelled:
            async with writer.change_lock:
                await store_cancelled(writer, self._deps.kinds, wait=True)
        finally:
            writer.executions -= 1
        return await self._next_step(writer)

    async def _due_phase(self, writer: JobWriter, name: str) -> RunPhase | None:
        """Return the phase of that name if it is the next one; None if it was run, or child jobs have not ended."""
        match writer.action:
            case RunPhase() as phase:
                pass
            case Wait() as action:
                is_due = action.until is not None and action.until <= self._deps.now()
                phase = action.then if is_due or not action.is_for_client else None
            case AwaitChildren() as action:
                phase = action.then if not await self._unfinished_children(writer) else None
            case Finished():
                phase = None
        return phase if phase is not None and phase.phase == name and not writer.job.is_finished else None


def _step(kind: str, phase: RunPhase, *, seconds: float | None = None, children: Sequence[str] = ()) -> Step:
    return Step(kind, phase.phase, phase.queue, phase.timeout, phase.heartbeat_timeout, seconds, children)


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(_HEARTBEAT_SECONDS)
