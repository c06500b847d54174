"""Executes one run until it ends or waits for its client. Each step is stored before the next one starts."""

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
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.run import RunState, ToolOutcome, close_open_calls
from forge_proxy.engine.answer import Engine
from forge_proxy.workflows.cancellation import Cancelled, run_cancellable
from forge_proxy.workflows.context import CompactEvent, ContextManager
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.runs.errors import RunConflict, RunNotFound
from forge_proxy.workflows.runs.message_json import to_json
from forge_proxy.workflows.runs.records import NewEvent
from forge_proxy.workflows.runs.run_writer import RunWriter
from forge_proxy.workflows.runs.serialization import serialize_error, serialize_result
from forge_proxy.workflows.runs.storage_limits import MAX_DEPTH, is_too_deep
from forge_proxy.workflows.runs.submission import Submission, read_submission
from forge_proxy.workflows.tool_registry import BoundTools, ToolRegistry
from forge_proxy.workflows.tools import CallExecutor

_TEMPORARY_ERRORS = (BackendLost, BackendNotReady, BackendUnreachable, ModelNotLoaded, Overloaded)
"""Temporary errors, for example after a restart of the machine: the run waits and retries."""
_RETRY_DELAYS = (1, 2, 5, 10, 20, 30, 30, 30, 60, 60, 60)
"""Seconds between retries, about five minutes in total. The schedule restarts with each response of the model."""


_STRATEGIES: Mapping[str, Callable[[int], CompactStrategy]] = {
    "none": lambda _: NoCompact(),
    "sliding": SlidingWindowCompact,
    "tiered": TieredCompact,
}


@dataclass(frozen=True, slots=True)
class ExecutionDeps:
    """The dependencies of run execution. `report` is called with a run's id and an internal error."""

    engine: Engine
    tools: ToolRegistry
    report: Callable[[str, Exception], None]


async def execute_run(writer: RunWriter, deps: ExecutionDeps) -> None:
    """Execute a run. Raises `StoreInUse` if another daemon uses the store by now, `RunNotFound` if it was deleted."""
    try:
        submission = read_submission(writer.run.submission)
        await _Execution(writer, deps, submission).run()
    except WorkflowCancelledError:
        async with writer.change_lock:
            await store_cancelled(writer, wait=True)
    except (StoreUnavailable, RunNotFound, RunConflict):
        raise
    except ForgeError as error:
        await _store_failed(writer, error)
    except Exception as error:  # noqa: BLE001 - internal: it must not affect other runs
        deps.report(writer.run.id, error)
        await _store_failed(writer, error)


async def store_cancelled(writer: RunWriter, *, wait: bool = False) -> None:
    """Store the status `cancelled`."""
    state, events = _close_calls(writer.state)
    event = NewEvent("status", {"status": "cancelled"})
    await writer.write(*events, event, state=state, status="cancelled", wait=wait)


async def _store_failed(writer: RunWriter, error: Exception) -> None:
    name = type(error).__name__ if isinstance(error, ForgeError) else "InternalError"
    event = NewEvent("status", {"status": "failed", "error": name})
    async with writer.change_lock:  # a concurrent cancel request comes first or gets an error
        state, events = _close_calls(writer.state)
        await writer.write(*events, event, state=state, status="failed", outcome=serialize_error(error), wait=True)


def _close_calls(state: RunState) -> tuple[RunState, list[NewEvent]]:
    """Give every open call of a stopped run a result, so that its history can be resumed."""
    messages = close_open_calls(state)
    return replace(state.with_messages(messages), batch=None), message_events(state.messages, messages)


class _Execution:
    """The execution of one run."""

    def __init__(self, writer: RunWriter, deps: ExecutionDeps, submission: Submission) -> None:
        self._writer = writer
        self._deps = deps
        self._submission = submission
        self._workflow = submission.workflow.definition()
        self._events: list[NewEvent] = []

    async def run(self) -> None:
        """Execute the run and store its result."""
        writer = self._writer
        await writer.write(NewEvent("status", {"status": "running"}), status="running", wait=True)
        tools = self._deps.tools.bind(self._submission.executes, writer.run.id)
        await self._run_with_retries(await self._runner(), _StoringExecutor(tools, writer))
        async with writer.change_lock:
            if (ended := writer.state.ended) is not None:
                event = NewEvent("status", {"status": "completed"})
                await writer.write(event, status="completed", outcome=serialize_result(ended), wait=True)
            elif writer.cancel.is_set():
                await store_cancelled(writer, wait=True)
            else:
                calls: list[Json] = [*open_calls(writer.state)]
                event = NewEvent("status", {"status": "requires_action", "calls": calls})
                await writer.write(event, status="requires_action", wait=True)

    async def _runner(self) -> WorkflowRunner:
        submission = self._submission
        return WorkflowRunner(
            self._deps.engine,
            await self._context_manager(),
            submission.max_iterations,
            submission.max_retries_per_step,
            submission.max_tool_errors,
            on_message=lambda message: self._events.extend(message_events((), (message,))),
            rescue_enabled=submission.rescue_enabled,
            model=submission.model,
            options=submission.options,
        )

    async def _context_manager(self) -> ContextManager | None:
        """Return the context manager, if the run has a budget."""
        options = self._submission.context
        if options is None:
            return None
        budget = options.budget or (await self._deps.engine.budgets.of(self._submission.model)).tokens
        if budget is None:
            return None
        strategy = _STRATEGIES[options.strategy](options.keep_recent)
        return ContextManager(strategy, budget, options.threshold, on_compact=self._record_compaction)

    def _record_compaction(self, event: CompactEvent) -> None:
        self._events.append(NewEvent("compacted", asdict(event)))

    async def _run_with_retries(self, runner: WorkflowRunner, executor: CallExecutor) -> None:
        """Execute all steps possible here; wait while the model server is unavailable."""
        delays, since = iter(_RETRY_DELAYS), self._writer.state.iteration
        while True:
            try:
                return await self._run_steps(runner, executor)
            except _TEMPORARY_ERRORS as error:
                if self._writer.state.iteration != since:
                    delays, since = iter(_RETRY_DELAYS), self._writer.state.iteration
                if (seconds := next(delays, None)) is None:
                    raise
                await self._wait(seconds, error)

    async def _run_steps(self, runner: WorkflowRunner, executor: CallExecutor) -> None:
        writer = self._writer
        self._events.clear()
        steps = runner.drive(
            self._workflow, writer.state, executor=executor, cancel_event=writer.cancel, run_id=writer.run.id
        )
        async with aclosing(steps):
            async for state in steps:
                events = [*self._events, *state_events(writer.state, state)]
                self._events.clear()
                await writer.write(*events, state=state, wait=True)

    async def _wait(self, seconds: float, error: ForgeError) -> None:
        writer = self._writer
        event = NewEvent("waiting", {"error": type(error).__name__, "seconds": seconds})
        await writer.write(event, wait=True)
        try:
            await run_cancellable(writer.cancel, asyncio.sleep(seconds))
        except Cancelled:
            now = writer.state
            raise WorkflowCancelledError(now.messages, now.steps, now.iteration) from None


class _StoringExecutor:
    """`CallExecutor` that stores a `tool_started` event before each call that leaves the daemon.

    Arguments and results are stored with the run: a value that could not be read again is an error of the call.
    """

    def __init__(self, tools: BoundTools, writer: RunWriter) -> None:
        self._tools = tools
        self._writer = writer

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `CallExecutor`."""
        if is_too_deep(call.args()):
            return ToolOutcome.failed(f"the arguments are nested deeper than {MAX_DEPTH} levels")
        if self._tools.is_external(call.tool):
            event = NewEvent("tool_started", {"tool_call_id": call.id, "tool": call.tool, "key": key})
            await self._writer.write(event, wait=True)
        outcome = await self._tools.execute(call, key)
        if outcome is not None and is_too_deep(outcome.value):
            return ToolOutcome.failed(f"the result is nested deeper than {MAX_DEPTH} levels")
        return outcome


def open_calls(state: RunState) -> list[dict[str, Json]]:
    """Return the calls without an outcome, in OpenAI's format."""
    if state.batch is None:
        return []
    return [_call_json(state.batch.calls[place]) for place in state.batch.open]


def _call_json(call: ToolCall) -> dict[str, Json]:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}


def message_events(before: Sequence[Message], after: Sequence[Message]) -> list[NewEvent]:
    """Return the events of the messages that were added."""
    return [NewEvent("message", to_json(message)) for message in after[len(before) :]]


def state_events(before: RunState, after: RunState) -> list[NewEvent]:
    """Return the events between two states, apart from messages."""
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
