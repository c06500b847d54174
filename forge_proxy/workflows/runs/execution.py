"""Runs as a kind of jobs: a phase executes one until it ends or waits for its client, and stores each step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace

from forge_proxy.core.backend_errors import BackendLost, BackendNotReady, BackendUnreachable, ModelNotLoaded
from forge_proxy.core.compaction import CompactStrategy, NoCompact, SlidingWindowCompact, TieredCompact
from forge_proxy.core.errors import ForgeError, Overloaded
from forge_proxy.core.jobs.actions import Finished, NextAction, RunPhase, Wait
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound, JobNotReadable
from forge_proxy.core.jobs.records import NewEvent, StoredJob
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.run import RunState, ToolOutcome, close_open_calls
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import ToolExecuted
from forge_proxy.engine.ports import Observer
from forge_proxy.jobs.cancellation import Cancelled, run_cancellable
from forge_proxy.jobs.storage_limits import MAX_DEPTH, is_too_deep
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.workflows.context import CompactEvent, ContextManager
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.runs.message_json import to_json
from forge_proxy.workflows.runs.run_writer import RunWriter
from forge_proxy.workflows.runs.serialization import serialize_error, serialize_result
from forge_proxy.workflows.runs.submission import Submission
from forge_proxy.workflows.tool_registry import BoundTools, ToolRegistry
from forge_proxy.workflows.tools import CallExecutor

_TEMPORARY_ERRORS = (BackendLost, BackendNotReady, BackendUnreachable, ModelNotLoaded, Overloaded)
"""Temporary errors, for example after a restart of the machine: the run waits and retries."""
_RETRY_DELAYS = (1, 2, 5, 10, 20, 30, 30, 30, 60, 60, 60)
"""Seconds between retries, about five minutes in total. The schedule restarts with each response of the model."""


_PHASE = RunPhase("run", queue="runs")
AWAIT_CLIENT = Wait(None, _PHASE, "requires_action")
"""The next action of a run that waits for outputs of its client."""
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
    check_notify_url: Callable[[str], None]
    """Raises `InvalidRequest` for a URL that may not be called."""
    observe: Observer


class RunHandler:
    """The kind of jobs that are runs: `jobs.ports.JobHandler`."""

    kind = "run"

    def __init__(self, deps: ExecutionDeps) -> None:
        self._deps = deps

    def first_action(self, job: StoredJob) -> RunPhase:
        """See `JobHandler`."""
        return _PHASE

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """Execute the run until it ends or waits for its client. See `JobHandler`."""
        run = RunWriter(writer)
        try:
            return await _Execution(run, self._deps, run.submission()).run()
        except WorkflowCancelledError:
            return AWAIT_CLIENT  # in place of which `cancelled` is stored
        except (StoreUnavailable, JobNotFound, JobConflict, JobNotReadable):
            raise
        except Exception as error:  # noqa: BLE001 - internal: it must not affect other runs
            if not isinstance(error, ForgeError):
                self._deps.report(run.id, error)
            return _stage_failed(run, error)

    def on_cancel(self, writer: JobWriter) -> None:
        """See `JobHandler`."""
        run = RunWriter(writer)
        state, events = _close_calls(run.state)
        run.stage(*events, state=state)


def _stage_failed(run: RunWriter, error: Exception) -> Finished:
    name = type(error).__name__ if isinstance(error, ForgeError) else "InternalError"
    event = NewEvent("status", {"status": "failed", "error": name})
    state, events = _close_calls(run.state)
    run.stage(*events, event, state=state, outcome=serialize_error(error))
    return Finished("failed")


def _close_calls(state: RunState) -> tuple[RunState, list[NewEvent]]:
    """Give every open call of a stopped run a result, so that its history can be resumed."""
    messages = close_open_calls(state)
    return replace(state.with_messages(messages), batch=None), message_events(state.messages, messages)


class _Execution:
    """The execution of one run."""

    def __init__(self, run: RunWriter, deps: ExecutionDeps, submission: Submission) -> None:
        self._run = run
        self._deps = deps
        self._submission = submission
        self._workflow = submission.workflow.definition()
        self._events: list[NewEvent] = []

    async def run(self) -> NextAction:
        """Execute the run; stage its result, or the calls whose outputs it waits for."""
        run = self._run
        tools = self._deps.tools.bind(self._submission.executes, run.id)
        await self._run_with_retries(await self._runner(), _StoringExecutor(tools, run, self._deps.observe))
        if (ended := run.state.ended) is not None:
            run.stage(NewEvent("status", {"status": "completed"}), outcome=serialize_result(ended))
            return Finished("completed")
        calls: list[Json] = [*open_calls(run.state)]
        run.stage(NewEvent("status", {"status": "requires_action", "calls": calls}))
        return AWAIT_CLIENT

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
        delays, since = iter(_RETRY_DELAYS), self._run.state.iteration
        while True:
            try:
                return await self._run_steps(runner, executor)
            except _TEMPORARY_ERRORS as error:
                if self._run.state.iteration != since:
                    delays, since = iter(_RETRY_DELAYS), self._run.state.iteration
                if (seconds := next(delays, None)) is None:
                    raise
                await self._wait(seconds, error)

    async def _run_steps(self, runner: WorkflowRunner, executor: CallExecutor) -> None:
        run = self._run
        self._events.clear()
        steps = runner.drive(self._workflow, run.state, executor=executor, cancel_event=run.cancel, run_id=run.id)
        async with aclosing(steps):
            async for state in steps:
                events = [*self._events, *state_events(run.state, state)]
                self._events.clear()
                await run.write(*events, state=state)

    async def _wait(self, seconds: float, error: ForgeError) -> None:
        run = self._run
        await run.write(NewEvent("waiting", {"error": type(error).__name__, "seconds": seconds}))
        try:
            await run_cancellable(run.cancel, asyncio.sleep(seconds))
        except Cancelled:
            now = run.state
            raise WorkflowCancelledError(now.messages, now.steps, now.iteration) from None


class _StoringExecutor:
    """`CallExecutor` that stores a `tool_started` event before each call that leaves the daemon.

    Arguments and results are stored with the run. A call with a value that is nested too deeply to be read again fails.
    """

    def __init__(self, tools: BoundTools, run: RunWriter, observe: Observer) -> None:
        self._tools = tools
        self._run = run
        self._observe = observe

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `CallExecutor`."""
        if is_too_deep(call.args()):
            return ToolOutcome.failed(f"the arguments are nested deeper than {MAX_DEPTH} levels")
        if self._tools.is_external(call.tool):
            event = NewEvent("tool_started", {"tool_call_id": call.id, "tool": call.tool, "key": key})
            await self._run.write(event)
        began = time.monotonic()
        outcome = await self._tools.execute(call, key)
        if outcome is not None:  # otherwise the client executes it
            error = "" if outcome.status == "ok" else outcome.status
            self._observe(ToolExecuted(self._run.id, call.tool, call.id, time.monotonic() - began, error))
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
