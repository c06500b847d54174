"""Runs workflows one at a time on one slot of the model server, by priority.

A preempted run loses only the response in progress: it resumes from its last state when its turn comes again.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.messages import Message
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.run import RunState, begin_run, close_open_calls
from forge_proxy.core.workflow.steps import Steps
from forge_proxy.workflows.runner import WorkflowRunner, result_of


class WorkerStopped(ForgeError):
    """The worker has been stopped or was never started, and accepts no runs."""

    def __init__(self) -> None:
        super().__init__("the worker is not running: start it, or enter it with `async with`")


class _Job:
    """A queued run and the future of its result."""

    def __init__(self, workflow: Workflow, state: RunState, priority: int, number: int, *, is_new: bool) -> None:
        self.workflow = workflow
        self.state = state
        self.is_new = is_new
        """Whether the initial messages have not been reported to `on_message` yet."""
        self.priority = priority
        self.number = number
        self.preempted = asyncio.Event()
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: _Job) -> bool:
        return (-self.priority, self.number) < (-other.priority, other.number)

    def cancel(self) -> None:
        """Fail the job's future with `WorkflowCancelledError`."""
        if not self.result.done():
            now = self.state
            self.result.set_exception(WorkflowCancelledError(close_open_calls(now), now.steps, now.iteration))


class SlotWorker:
    """A priority queue for one slot. If the server has several slots, pass `options={"id_slot": …}` to the runner.

    With `preempt` a run of higher priority stops the current response and takes over; a running tool is awaited first.
    Runs of equal priority are served in order of arrival.
    """

    def __init__(self, runner: WorkflowRunner, *, preempt: bool = True) -> None:
        self._runner = runner
        self._preempt = preempt
        self._queue: list[_Job] = []
        self._numbers = itertools.count()
        self._running: _Job | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SlotWorker:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def waiting(self) -> int:
        """Number of queued runs."""
        return len(self._queue)

    def start(self) -> None:
        """Start accepting runs. Further calls have no effect."""
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Stop accepting runs and cancel the current ones.

        Their `run` calls raise `WorkflowCancelledError` with the history. A running tool is awaited.
        """
        task, self._task = self._task, None
        if task is None:
            return
        self._cancel_queued()
        self._wake.set()
        if self._running is not None:
            self._running.preempted.set()
        await task

    async def run(
        self,
        workflow: Workflow,
        user_message: str,
        prompt_vars: Mapping[str, str] | None = None,
        initial_messages: Sequence[Message] | None = None,
        *,
        steps: Steps | None = None,
        priority: int = 0,
    ) -> Any:
        """Queue a run, wait for its turn and return its result; a higher `priority` is more urgent.

        Cancelling this call removes the run. Raises `WorkerStopped`, or like `WorkflowRunner.run`.
        """
        if self._task is None:
            raise WorkerStopped
        state = begin_run(workflow, user_message, prompt_vars, initial_messages, steps or Steps())
        job = _Job(workflow, state, priority, next(self._numbers), is_new=initial_messages is None)
        heapq.heappush(self._queue, job)
        self._wake.set()
        running = self._running
        if self._preempt and running is not None and running.priority < priority:
            running.preempted.set()
        try:
            return await job.result
        finally:
            self._remove(job)

    def _remove(self, job: _Job) -> None:
        """Remove a job whose result is no longer awaited, or preempt it if it runs."""
        if job in self._queue:
            self._queue.remove(job)
            heapq.heapify(self._queue)
        elif self._running is job:
            job.preempted.set()

    def _cancel_queued(self) -> None:
        """Cancel all queued jobs."""
        queue, self._queue = self._queue, []
        for job in queue:
            job.cancel()

    async def _work(self) -> None:
        try:
            while self._is_current():
                if not self._queue:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                job = self._running = heapq.heappop(self._queue)
                job.preempted.clear()
                try:
                    await self._execute(job)
                finally:
                    self._running = None
        finally:
            if self._is_current():  # the task was not stopped by `stop`, but cancelled from elsewhere
                self._task = None
                self._cancel_queued()

    def _is_current(self) -> bool:
        """Return whether the current task is the worker: after a stop there may be another."""
        return self._task is asyncio.current_task()

    async def _execute(self, job: _Job) -> None:
        """Execute a run until it ends or is preempted."""
        try:
            if job.is_new:
                job.is_new = False
                self._runner.report_messages(job.state.messages)
            states = self._runner.drive(job.workflow, job.state, cancel_event=job.preempted)
            async with aclosing(states):
                async for state in states:
                    job.state = state
            result = result_of(job.state)
        except WorkflowCancelledError:
            if job.result.done():
                return
            if self._is_current():
                heapq.heappush(self._queue, job)
            else:
                job.cancel()
        except (asyncio.CancelledError, GeneratorExit):
            job.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - raised from the `run` call that awaits the job
            if not job.result.done():
                job.result.set_exception(error)
        else:
            if not job.result.done():
                job.result.set_result(result)
