"""The workflow `forge-job`, which drives a job of any kind. Never change what it does: running jobs are replayed by it.

`tests/temporal/histories` has stored histories, which the tests replay. The workflow knows only ids and actions; the
content of a job stays in the store, which the activities read and write (`activities.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, FailureError, WorkflowAlreadyStartedError

WORKFLOW, LOAD, CANCEL = "forge-job", "forge-load", "forge-cancel"
"""The names of the workflow, of the activity that reads the next step, and of the one that cancels a job."""
CONTROL_QUEUE = "forge-jobs"
"""The task queue of the workflow and of these two activities, behind the prefix."""
_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
_UNBOUNDED = timedelta(days=365)
_MARGIN = timedelta(seconds=30)
"""A phase ends itself at its timeout; Temporal ends it only if that fails."""
_PAUSE = 2.0


def workflow_id(queue_prefix: str, job_id: str) -> str:
    """Return the id of the workflow of a job. The ids of tasks may be those of another database in the namespace."""
    return queue_prefix + job_id


@dataclass(frozen=True)
class JobInput:
    """The input of a workflow."""

    job_id: str
    queue_prefix: str
    is_woken: bool = False
    is_cancelled: bool = False


@dataclass(frozen=True)
class Step:
    """The next step of a job: `run_phase`, `wait`, `await_children` or `finished`. A phase follows each wait."""

    type: str
    phase: str = ""
    queue: str = ""
    timeout: float | None = None
    heartbeat_timeout: float = 5.0
    seconds: float | None = None
    """How long a wait lasts; None if only a wake ends it."""
    children: Sequence[str] = ()


@workflow.defn(name=WORKFLOW)
class JobWorkflow:
    """Runs the phases of a job until it has ended."""

    @workflow.init
    def __init__(self, job: JobInput) -> None:
        self._job = job
        self._is_woken = job.is_woken
        self._is_cancelled = job.is_cancelled
        self._phase: workflow.ActivityHandle[Step] | None = None

    @workflow.run
    async def run(self, job: JobInput) -> None:
        """Follow the steps that the activities return."""
        step = await self._control(LOAD)
        while step.type != "finished":
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(replace(job, is_woken=self._is_woken, is_cancelled=self._is_cancelled))
            if step.type == "wait":
                await self._wait(step.seconds)
            elif step.type == "await_children":
                await self._run_children(step.children)
            step = await (self._control(CANCEL) if self._is_cancelled else self._run_phase(step))

    @workflow.signal
    def wake(self) -> None:
        """End the current wait of the job. If it does not wait now, its next wait ends at once."""
        self._is_woken = True

    @workflow.signal
    def cancel(self) -> None:
        """Cancel the job and its descendants."""
        self._is_cancelled = True
        if self._phase is not None:
            self._phase.cancel()

    async def _control(self, activity: str) -> Step:
        return await workflow.execute_activity(
            activity, self._job.job_id, result_type=Step, task_queue=self._job.queue_prefix + CONTROL_QUEUE,
            start_to_close_timeout=timedelta(minutes=1), retry_policy=_RETRIES,
        )  # fmt: skip

    async def _run_phase(self, step: Step) -> Step:
        timeout = _UNBOUNDED if step.timeout is None else timedelta(seconds=step.timeout) + _MARGIN
        self._phase = workflow.start_activity(
            step.phase, self._job.job_id, result_type=Step, task_queue=self._job.queue_prefix + step.queue,
            start_to_close_timeout=timeout, heartbeat_timeout=timedelta(seconds=step.heartbeat_timeout),
            retry_policy=_RETRIES, cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )  # fmt: skip
        try:
            return await self._phase
        except ActivityError:  # cancelled before it started, or with the daemon that ran it
            return await self._control(CANCEL if self._is_cancelled else LOAD)
        finally:
            self._phase = None

    async def _wait(self, seconds: float | None) -> None:
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(lambda: self._is_woken or self._is_cancelled, timeout=seconds)
        self._is_woken = False

    async def _run_children(self, job_ids: Sequence[str]) -> None:
        started = await asyncio.gather(*map(self._start_child, job_ids))
        children = [child for child in started if child is not None]
        if len(children) < len(started):  # a workflow of another parent has the id
            await workflow.sleep(_PAUSE)
        await workflow.wait_condition(lambda: self._is_cancelled or all(child.done() for child in children))
        for child in children:
            if not child.done():
                with suppress(FailureError):  # it has ended meanwhile
                    await child.signal(JobWorkflow.cancel)
        await workflow.wait_condition(lambda: all(child.done() for child in children))

    async def _start_child(self, job_id: str) -> workflow.ChildWorkflowHandle[JobWorkflow, None] | None:
        child = JobInput(job_id, self._job.queue_prefix, is_cancelled=self._is_cancelled)
        is_prefixed = workflow.info().workflow_id == workflow_id(self._job.queue_prefix, self._job.job_id)
        child_id = workflow_id(self._job.queue_prefix, job_id) if is_prefixed else job_id  # the histories have none
        try:
            return await workflow.start_child_workflow(JobWorkflow.run, child, id=child_id)
        except WorkflowAlreadyStartedError:
            return None
