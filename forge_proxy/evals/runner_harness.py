"""Makes runs through our own loop, `WorkflowRunner`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from forge_proxy.core.compaction import CompactStrategy, NoCompact, SlidingWindowCompact, TieredCompact
from forge_proxy.core.errors import BackendBroke, ForgeError
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import (
    PrerequisiteError,
    StepEnforcementError,
    ToolCallError,
    ToolExecutionError,
)
from forge_proxy.core.workflow.run import RunState, ToolOutcome, begin
from forge_proxy.engine.answer import Engine
from forge_proxy.evals.record import Strategy
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.single_run import PlannedRun, RunCounter, RunOutcome, is_no_result
from forge_proxy.workflows.context import CompactEvent, ContextManager, Count
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.sdk.client import LLMClient, StreamChunk
from forge_proxy.workflows.tools import CallableTools

_KEEP_RECENT = 2
"""Iterations that no strategy shortens, as in the seeds."""
_OF_AN_ANSWER = (ToolCallError, ToolExecutionError, StepEnforcementError, PrerequisiteError)
"""Errors that a run ends in because of the model's latest answer, which the state before does not count yet."""


class RunnerHarness:
    """`Harness` over a client. `window` is the context that the model has where neither scenario nor user says one."""

    def __init__(self, client: Engine | LLMClient, model: str | None = None, window: int | None = None) -> None:
        self._client = client
        self._model = model
        self._window = window

    async def play(self, job: PlannedRun, world: ScenarioState, tally: RunCounter) -> RunOutcome:
        """Make the run."""
        preset, config = job.preset, job.config
        workflow = preset.applied(world.workflow)
        runner = WorkflowRunner(
            self._client,
            _memory(job, self._window, tally),
            job.scenario.max_iterations,
            preset.max_retries,
            preset.max_tool_errors,
            stream=config.stream,
            on_chunk=_pass_over,
            model=self._model,
            options=job.options,
            guardrails=preset.switches,
            on_usage=tally.spend,
        )
        state = begin(workflow, world.user_message)
        tools = _CountedTools(workflow, tally)
        run_id = f"eval-{job.scenario.name}-{job.run}"
        try:
            async with aclosing(runner.drive(workflow, state, executor=tools, run_id=run_id)) as states:
                async for now in states:
                    _count(tally, state, now)
                    state = now
        except ForgeError as error:
            if isinstance(error, BackendBroke) or is_no_result(error):
                raise
            tally.iterations = state.iteration + isinstance(error, _OF_AN_ANSWER)
            return RunOutcome(error=type(error).__name__, detail=str(error))
        if state.ended is None:
            raise TypeError(f"{job.scenario.name}: a tool without a callable cannot be part of a scenario")
        return RunOutcome(state.ended.tool, state.ended.args)


def _count(tally: RunCounter, before: RunState, after: RunState) -> None:
    tally.iterations = after.iteration
    tally.retry_nudges += after.retries > before.retries
    tally.step_nudges += after.premature > before.premature
    tally.prerequisite_nudges += after.prereq_violations > before.prereq_violations


async def _pass_over(_: StreamChunk) -> None:
    """Nobody watches."""


class _CountedTools(CallableTools):
    """Counts what fails."""

    def __init__(self, workflow: Workflow, tally: RunCounter) -> None:
        super().__init__(workflow)
        self._tally = tally

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `Executor`."""
        outcome = await super().execute(call, key)
        self._tally.tool_errors += outcome is not None and outcome.status == "error"
        return outcome


def strategy_of(name: Strategy) -> CompactStrategy:
    """The strategy of that name."""
    match name:
        case "tiered":
            return TieredCompact(_KEEP_RECENT)
        case "sliding":
            return SlidingWindowCompact(_KEEP_RECENT)
        case "none":
            return NoCompact()


class _AlwaysEstimating(ContextManager):
    """Goes by estimates alone, so that histories are shortened at the same places whatever model reads them."""

    def observe_usage(self, messages: Sequence[Message], prompt_tokens: int, beside: int = 0) -> None:
        """Nothing comes of it."""

    async def maybe_compact_counted(
        self, messages: Sequence[Message], count: Count, step_index: int = 0, step_hint: str = "", beside: int = 0
    ) -> tuple[Message, ...]:
        """Nothing is counted."""
        return self.maybe_compact(messages, step_index, step_hint, beside)


def _memory(job: PlannedRun, window: int | None, tally: RunCounter) -> ContextManager | None:
    """What keeps a run within its budget: the user's, else the scenario's, which is in estimated tokens, else what the
    model has.
    """

    def note(event: CompactEvent) -> None:
        tally.compactions.append(event.phase_reached)

    strategy = strategy_of(job.config.strategy if job.preset.compaction else "none")
    said, own = job.config.budget_tokens, job.scenario.budget_tokens
    if said is None and own is not None:
        return _AlwaysEstimating(strategy, own, on_compact=note)
    budget = said or window
    return None if budget is None else ContextManager(strategy, budget, on_compact=note)
