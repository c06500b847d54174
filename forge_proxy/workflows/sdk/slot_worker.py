"""Runs workflows one at a time on one slot of the model server, the most urgent first.

A run that has to give way to a more urgent one loses the answer that is being written and nothing else: it goes on
from there when it is its turn again.
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
from forge_proxy.core.workflow.run import RunState, begin, interrupted
from forge_proxy.core.workflow.steps import Steps
from forge_proxy.workflows.runner import WorkflowRunner, result_of


class WorkerStopped(ForgeError):
    """The worker has been stopped, or was never started: it takes no more runs."""

    def __init__(self) -> None:
        super().__init__("the worker is not running: start it, or enter it with `async with`")


class _Job:
    """One run, and whom it is for."""

    def __init__(self, workflow: Workflow, state: RunState, priority: int, number: int, *, fresh: bool) -> None:
        self.workflow = workflow
        self.state = state
        self.fresh = fresh
        """Whether nobody has heard of the messages that it begins with."""
        self.priority = priority
        self.number = number
        self.give_way = asyncio.Event()
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: _Job) -> bool:
        return (-self.priority, self.number) < (-other.priority, other.number)

    def cancel(self) -> None:
        """Tell whoever waits for it that it will not end."""
        if not self.result.done():
            now = self.state
            self.result.set_exception(WorkflowCancelledError(interrupted(now), now.steps, now.iteration))


class SlotWorker:
    """A queue before one slot. Where the slot is one of several, make the runner with `options={"id_slot": …}`.

    With `preempt` a run gives way to one of higher priority as soon as its answer can be stopped: a tool that runs is
    waited for. Among equals the first to come is first.
    """

    def __init__(self, runner: WorkflowRunner, *, preempt: bool = True) -> None:
        self._runner = runner
        self._preempt = preempt
        self._queue: list[_Job] = []
        self._numbers = itertools.count()
        self._running: _Job | None = None
        self._stirred = asyncio.Event()
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
        """How many runs wait for their turn."""
        return len(self._queue)

    def start(self) -> None:
        """Take runs from now on. Once more changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Take no more runs, and cancel those that there are: their callers get a `WorkflowCancelledError` with the
        history. A tool that runs is waited for.
        """
        task, self._task = self._task, None
        if task is None:
            return
        self._empty()
        self._stirred.set()
        if self._running is not None:
            self._running.give_way.set()
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
        """The result of a run, once it had its turn; a higher `priority` is more urgent. Cancelling it takes the run
        out. Raises `WorkerStopped`, or like `WorkflowRunner.run`.
        """
        if self._task is None:
            raise WorkerStopped
        state = begin(workflow, user_message, prompt_vars, initial_messages, steps or Steps())
        job = _Job(workflow, state, priority, next(self._numbers), fresh=initial_messages is None)
        heapq.heappush(self._queue, job)
        self._stirred.set()
        running = self._running
        if self._preempt and running is not None and running.priority < priority:
            running.give_way.set()
        try:
            return await job.result
        finally:
            self._drop(job)

    def _drop(self, job: _Job) -> None:
        """Nobody waits for it any more."""
        if job in self._queue:
            self._queue.remove(job)
            heapq.heapify(self._queue)
        elif self._running is job:
            job.give_way.set()

    def _empty(self) -> None:
        """Nobody in the queue will have a turn."""
        queue, self._queue = self._queue, []
        for job in queue:
            job.cancel()

    async def _work(self) -> None:
        try:
            while self._takes_runs():
                if not self._queue:
                    self._stirred.clear()
                    await self._stirred.wait()
                    continue
                job = self._running = heapq.heappop(self._queue)
                job.give_way.clear()
                try:
                    await self._go_on(job)
                finally:
                    self._running = None
        finally:
            if self._takes_runs():  # it was not stopped, but ended by somebody else's hand
                self._task = None
                self._empty()

    def _takes_runs(self) -> bool:
        """Whether the task that asks is the one that works: after a stop there may be another."""
        return self._task is asyncio.current_task()

    async def _go_on(self, job: _Job) -> None:
        """Drive a run until it ends or gives way."""
        try:
            if job.fresh:
                job.fresh = False
                self._runner.hear(job.state.messages)
            moves = self._runner.drive(job.workflow, job.state, cancel_event=job.give_way)
            async with aclosing(moves):
                async for state in moves:
                    job.state = state
            result = result_of(job.state)
        except WorkflowCancelledError:
            if job.result.done():
                return
            if self._takes_runs():
                heapq.heappush(self._queue, job)
            else:
                job.cancel()
        except (asyncio.CancelledError, GeneratorExit):
            job.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the caller's, who waits for it
            if not job.result.done():
                job.result.set_exception(error)
        else:
            if not job.result.done():
                job.result.set_result(result)
