"""Executes runs with the built-in agent loop, `WorkflowRunner`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from forge_proxy.core.backend_errors import BackendBroke
from forge_proxy.core.compaction import CompactStrategy, NoCompact, SlidingWindowCompact, TieredCompact
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import (
    PrerequisiteError,
    StepEnforcementError,
    ToolCallError,
    ToolExecutionError,
)
from forge_proxy.core.workflow.run import RunState, ToolOutcome, begin_run
from forge_proxy.engine.answer import Engine
from forge_proxy.evals.record import Strategy
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.single_run import PlannedRun, RunCounter, RunOutcome, is_server_fault
from forge_proxy.workflows.context import CompactEvent, ContextManager, Count
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.sdk.client import LLMClient, StreamChunk
from forge_proxy.workflows.tools import CallableTools

_KEEP_RECENT = 2
"""Number of recent iterations that no compaction strategy changes."""
_RESPONSE_ERRORS = (ToolCallError, ToolExecutionError, StepEnforcementError, PrerequisiteError)
"""Errors caused by the model's latest response, which the last state does not count yet."""


class RunnerHarness:
    """`Harness` over a client. `window` is the context in tokens if neither the scenario nor the user sets a budget."""

    def __init__(self, client: Engine | LLMClient, model: str | None = None, window: int | None = None) -> None:
        self._client = client
        self._model = model
        self._window = window

    async def execute(self, job: PlannedRun, scenario_state: ScenarioState, counter: RunCounter) -> RunOutcome:
        """Execute the run."""
        preset, config = job.preset, job.config
        workflow = preset.apply_to(scenario_state.workflow)
        runner = WorkflowRunner(
            self._client,
            _memory(job, self._window, counter),
            job.scenario.max_iterations,
            preset.max_retries,
            preset.max_tool_errors,
            stream=config.stream,
            on_chunk=_pass_over,
            model=self._model,
            options=job.options,
            guardrails=preset.switches,
            on_usage=counter.add_usage,
        )
        state = begin_run(workflow, scenario_state.user_message)
        tools = _CountedTools(workflow, counter)
        run_id = f"eval-{job.scenario.name}-{job.run}"
        try:
            async with aclosing(runner.drive(workflow, state, executor=tools, run_id=run_id)) as states:
                async for now in states:
                    _count(counter, state, now)
                    state = now
        except ForgeError as error:
            if isinstance(error, BackendBroke) or is_server_fault(error):
                raise
            counter.iterations = state.iteration + isinstance(error, _RESPONSE_ERRORS)
            return RunOutcome(error=type(error).__name__, detail=str(error))
        if state.ended is None:
            raise TypeError(f"{job.scenario.name}: every tool of a scenario needs a callable")
        return RunOutcome(state.ended.tool, state.ended.args)


def _count(counter: RunCounter, before: RunState, after: RunState) -> None:
    counter.iterations = after.iteration
    counter.retry_nudges += after.retries > before.retries
    counter.step_nudges += after.premature > before.premature
    counter.prerequisite_nudges += after.prereq_violations > before.prereq_violations


async def _pass_over(_: StreamChunk) -> None:
    """Ignore stream chunks."""


class _CountedTools(CallableTools):
    """Counts failed tool calls."""

    def __init__(self, workflow: Workflow, counter: RunCounter) -> None:
        super().__init__(workflow)
        self._tally = counter

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `CallExecutor`."""
        outcome = await super().execute(call, key)
        self._tally.tool_errors += outcome is not None and outcome.status == "error"
        return outcome


def select_strategy(name: Strategy) -> CompactStrategy:
    """Return the compaction strategy of a name."""
    match name:
        case "tiered":
            return TieredCompact(_KEEP_RECENT)
        case "sliding":
            return SlidingWindowCompact(_KEEP_RECENT)
        case "none":
            return NoCompact()


class _AlwaysEstimating(ContextManager):
    """Uses only token estimates, so that compaction happens at the same points for every model."""

    def observe_usage(self, messages: Sequence[Message], prompt_tokens: int, tool_tokens: int = 0) -> None:
        """Ignore the usage."""

    async def maybe_compact_counted(
        self, messages: Sequence[Message], count: Count, step_index: int = 0, step_hint: str = "", tool_tokens: int = 0
    ) -> tuple[Message, ...]:
        """Compact by estimates; do not count tokens."""
        return self.maybe_compact(messages, step_index, step_hint, tool_tokens)


def _memory(job: PlannedRun, window: int | None, counter: RunCounter) -> ContextManager | None:
    """Return the context manager for the run's budget: the user's, else the scenario's (in estimated tokens), else the
    model's window.
    """

    def note(event: CompactEvent) -> None:
        counter.compactions.append(event.phase_reached)

    strategy = select_strategy(job.config.strategy if job.preset.compaction else "none")
    configured, own = job.config.budget_tokens, job.scenario.budget_tokens
    if configured is None and own is not None:
        return _AlwaysEstimating(strategy, own, on_compact=note)
    budget = configured or window
    return None if budget is None else ContextManager(strategy, budget, on_compact=note)
