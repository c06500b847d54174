"""Drives one run as far as it gets: to its end, or until it waits for its caller. Each step is stored before the next
one is begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace

from forge_proxy.core.compaction import CompactStrategy, NoCompact, SlidingWindowCompact, TieredCompact
from forge_proxy.core.errors import (
    BackendLost,
    BackendNotReady,
    BackendUnreachable,
    ForgeError,
    ModelNotLoaded,
    Overloaded,
)
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.run import RunState, ToolOutcome, interrupted
from forge_proxy.engine.answer import Engine
from forge_proxy.workflows.cancellation import Cancelled, unless
from forge_proxy.workflows.context import CompactEvent, ContextManager
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.runs.errors import RunConflict, RunNotFound, StoreUnavailable
from forge_proxy.workflows.runs.local_tools import OWN
from forge_proxy.workflows.runs.message_json import written
from forge_proxy.workflows.runs.ports import ToolRegistry
from forge_proxy.workflows.runs.records import NewEvent
from forge_proxy.workflows.runs.run_writer import RunWriter
from forge_proxy.workflows.runs.serialization import failure_of, result_of
from forge_proxy.workflows.runs.storage_limits import DEEPEST, is_too_deep
from forge_proxy.workflows.runs.submission import Submission, read_submission
from forge_proxy.workflows.tools import Executor

_PASSING = (BackendLost, BackendNotReady, BackendUnreachable, ModelNotLoaded, Overloaded)
"""What may be over in a while, as after a restart of the machine: a run waits for it."""
_WAITS = (1, 2, 5, 10, 20, 30, 30, 30, 60, 60, 60)
"""Seconds between attempts, some five minutes in all. They begin anew with each answer of the model."""


_STRATEGIES: Mapping[str, Callable[[int], CompactStrategy]] = {
    "none": lambda _: NoCompact(),
    "sliding": SlidingWindowCompact,
    "tiered": TieredCompact,
}


@dataclass(frozen=True, slots=True)
class ExecutionDeps:
    """What runs are driven with. `report` hears of faults of ours, by the id of the run."""

    engine: Engine
    toolbox: ToolRegistry
    report: Callable[[str, Exception], None]


async def drive(keeper: RunWriter, means: ExecutionDeps) -> None:
    """Drive a run. Raises `StoreInUse` where it is another daemon's by now, `RunNotFound` where it is nobody's."""
    try:
        submission = read_submission(keeper.run.submission)
        await _Drive(keeper, means, submission).to_its_end()
    except WorkflowCancelledError:
        async with keeper.alone:
            await cancel(keeper, patient=True)
    except (StoreUnavailable, RunNotFound, RunConflict):
        raise
    except ForgeError as error:
        await _fail(keeper, error)
    except Exception as error:  # noqa: BLE001 - of ours: one run's fault is not another's
        means.report(keeper.run.id, error)
        await _fail(keeper, error)


async def cancel(keeper: RunWriter, *, patient: bool = False) -> None:
    """Store that a run was cancelled."""
    state, events = _with_results(keeper.state)
    event = NewEvent("status", {"status": "cancelled"})
    await keeper.write(*events, event, state=state, status="cancelled", patient=patient)


async def _fail(keeper: RunWriter, error: Exception) -> None:
    name = type(error).__name__ if isinstance(error, ForgeError) else "InternalError"
    event = NewEvent("status", {"status": "failed", "error": name})
    async with keeper.alone:  # a request that cancels it comes before or is told that it has ended
        state, events = _with_results(keeper.state)
        await keeper.write(*events, event, state=state, status="failed", outcome=failure_of(error), patient=True)


def _with_results(state: RunState) -> tuple[RunState, list[NewEvent]]:
    """A run that is stopped: no call of its history is without a result, so that it can be gone on with."""
    messages = interrupted(state)
    return replace(state.with_messages(messages), batch=None), told(state.messages, messages)


class _Drive:
    """Of one run."""

    def __init__(self, keeper: RunWriter, means: ExecutionDeps, submission: Submission) -> None:
        self._keeper = keeper
        self._means = means
        self._submission = submission
        self._workflow = submission.workflow.definition()
        self._heard: list[NewEvent] = []

    async def to_its_end(self) -> None:
        """Drive it, and store what it came to."""
        keeper = self._keeper
        await keeper.write(NewEvent("status", {"status": "running"}), status="running", patient=True)
        executor = self._means.toolbox.executor(self._submission.executes, keeper.run.id)
        await self._patiently(await self._runner(), _Announced(executor, keeper, self._submission))
        async with keeper.alone:
            if (ended := keeper.state.ended) is not None:
                event = NewEvent("status", {"status": "completed"})
                await keeper.write(event, status="completed", outcome=result_of(ended), patient=True)
            elif keeper.cancel.is_set():
                await cancel(keeper, patient=True)
            else:
                wanted: list[Json] = [*open_calls(keeper.state)]
                event = NewEvent("status", {"status": "requires_action", "calls": wanted})
                await keeper.write(event, status="requires_action", patient=True)

    async def _runner(self) -> WorkflowRunner:
        submission = self._submission
        return WorkflowRunner(
            self._means.engine,
            await self._memory(),
            submission.max_iterations,
            submission.max_retries_per_step,
            submission.max_tool_errors,
            on_message=lambda message: self._heard.extend(told((), (message,))),
            rescue_enabled=submission.rescue_enabled,
            model=submission.model,
            options=submission.options,
        )

    async def _memory(self) -> ContextManager | None:
        """What keeps the history within its budget, where there is one."""
        wish = self._submission.context
        if wish is None:
            return None
        budget = wish.budget or (await self._means.engine.budgets.of(self._submission.model)).tokens
        if budget is None:
            return None
        strategy = _STRATEGIES[wish.strategy](wish.keep_recent)
        return ContextManager(strategy, budget, wish.threshold, on_compact=self._compacted)

    def _compacted(self, event: CompactEvent) -> None:
        self._heard.append(NewEvent("compacted", asdict(event)))

    async def _patiently(self, runner: WorkflowRunner, executor: Executor) -> None:
        """Through all steps that can be done here, waiting for a model server that cannot be asked now."""
        waits, since = iter(_WAITS), self._keeper.state.iteration
        while True:
            try:
                return await self._through(runner, executor)
            except _PASSING as error:
                if self._keeper.state.iteration != since:
                    waits, since = iter(_WAITS), self._keeper.state.iteration
                if (seconds := next(waits, None)) is None:
                    raise
                await self._wait(seconds, error)

    async def _through(self, runner: WorkflowRunner, executor: Executor) -> None:
        keeper = self._keeper
        self._heard.clear()
        steps = runner.drive(
            self._workflow, keeper.state, executor=executor, cancel_event=keeper.cancel, run_id=keeper.run.id
        )
        async with aclosing(steps):
            async for state in steps:
                events = [*self._heard, *changes(keeper.state, state)]
                self._heard.clear()
                await keeper.write(*events, state=state, patient=True)

    async def _wait(self, seconds: float, error: ForgeError) -> None:
        keeper = self._keeper
        event = NewEvent("waiting", {"error": type(error).__name__, "seconds": seconds})
        await keeper.write(event, patient=True)
        try:
            await unless(keeper.cancel, asyncio.sleep(seconds))
        except Cancelled:
            now = keeper.state
            raise WorkflowCancelledError(now.messages, now.steps, now.iteration) from None


class _Announced:
    """`Executor` that tells of each call before it is executed, where that may take a while.

    What is said and given back is stored with the run: what could not be read again is the call's error.
    """

    def __init__(self, executor: Executor, keeper: RunWriter, submission: Submission) -> None:
        self._executor = executor
        self._keeper = keeper
        self._executes = submission.executes

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `Executor`."""
        if is_too_deep(call.args()):
            return ToolOutcome.failed(f"its arguments are nested deeper than {DEEPEST} levels")
        if self._executes[call.tool]["by"] not in OWN:
            event = NewEvent("tool_started", {"tool_call_id": call.id, "tool": call.tool, "key": key})
            await self._keeper.write(event, patient=True)
        outcome = await self._executor.execute(call, key)
        if outcome is not None and is_too_deep(outcome.value):
            return ToolOutcome.failed(f"the result is nested deeper than {DEEPEST} levels")
        return outcome


def open_calls(state: RunState) -> list[dict[str, Json]]:
    """The calls without an outcome, as OpenAI's API writes them."""
    if state.batch is None:
        return []
    return [_call(state.batch.calls[place]) for place in state.batch.open]


def _call(call: ToolCall) -> dict[str, Json]:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}


def told(before: Sequence[Message], after: Sequence[Message]) -> list[NewEvent]:
    """The events of messages that were added."""
    return [NewEvent("message", written(message)) for message in after[len(before) :]]


def changes(before: RunState, after: RunState) -> list[NewEvent]:
    """What happened between two states, beside messages."""
    events: list[NewEvent] = []
    if after.batch is not None:
        had: Collection[int] = before.batch.outcomes if before.batch is not None else ()
        for place, outcome in after.batch.outcomes.items():
            if place not in had:
                call = after.batch.calls[place]
                event = {"tool_call_id": call.id, "tool": call.tool, "status": outcome.status}
                events.append(NewEvent("tool_finished", event))
    if after.retries > before.retries:
        events.append(NewEvent("retry", {"retries": after.retries}))
    if after.iteration > before.iteration:
        steps: list[Json] = [*after.steps.completed]
        events.append(NewEvent("iteration", {"iteration": after.iteration, "completed_steps": steps}))
    return events
