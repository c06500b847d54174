"""A single run of a scenario, independent of the harness: its parameters, its outcome and its record."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from forge_proxy._version import __version__
from forge_proxy.core.backend_errors import (
    BackendBroke,
    BackendDown,
    BackendError,
    BackendLost,
    BackendNotReady,
    BackendUnreachable,
    ModelNotLoaded,
)
from forge_proxy.core.errors import ForgeError, Overloaded
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, no_fields
from forge_proxy.evals.ablation import Ablation
from forge_proxy.evals.clients import adapt_scenario
from forge_proxy.evals.record import EvalConfiguration, RunRecord
from forge_proxy.evals.scenario import Scenario, ScenarioState

_SERVER_STATUSES = frozenset({401, 403, 404, 429, 502, 503, 529})
"""HTTP statuses that do not measure the model: missing key, unknown model, busy."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run to execute. `planned` is the number of runs in its series."""

    config: EvalConfiguration
    preset: Ablation
    scenario: Scenario
    run: int
    planned: int

    @property
    def seed(self) -> int:
        """The seed: equal for the same run number in every configuration, so that runs can be compared in pairs."""
        return self.config.seed + self.run

    def build(self) -> ScenarioState:
        """Build the scenario as the configuration's kind of client runs it."""
        state = self.scenario.build(self.run)
        return adapt_scenario(state, self.config.client, f"{self.scenario.name} {self.seed}")

    @property
    def options(self) -> JsonObject:
        """The request fields that the configuration sets."""
        config = self.config
        fields: dict[str, Json] = {
            "seed": self.seed,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "tool_choice": "required" if config.tool_choice == "any" or config.client == "required" else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True)
class RunCounter:
    """Counters of a run in progress."""

    iterations: int = 0
    retry_nudges: int = 0
    step_nudges: int = 0
    prerequisite_nudges: int = 0
    tool_errors: int = 0
    compactions: list[int] = field(default_factory=list[int])
    input_tokens: int | None = None
    output_tokens: int | None = None

    def add_usage(self, usage: JsonObject) -> None:
        """Add the token usage of one response, as counted by the model server."""
        if is_integer(tokens := usage.get("prompt_tokens")):
            self.input_tokens = (self.input_tokens or 0) + tokens
        if is_integer(tokens := usage.get("completion_tokens")):
            self.output_tokens = (self.output_tokens or 0) + tokens


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The end of a run: the call of a terminal `tool`, or an `error` (class name) with its `detail` (message)."""

    tool: str | None = None
    args: JsonObject = field(default_factory=no_fields)
    error: str | None = None
    detail: str | None = None


class Harness(Protocol):
    """Executes runs."""

    async def execute(self, job: PlannedRun, scenario_state: ScenarioState, counter: RunCounter) -> RunOutcome:
        """Execute the run. Raises errors of the model server (`is_no_result`) and `BackendBroke`."""
        ...


def is_server_fault(error: ForgeError) -> bool:
    """Return whether an error is the model server's, not the model's. Such runs are not counted and may be repeated."""
    gone = (BackendUnreachable, BackendDown, BackendLost, BackendNotReady, ModelNotLoaded, Overloaded)
    return isinstance(error, gone) or (isinstance(error, BackendError) and error.status in _SERVER_STATUSES)


async def execute_run(job: PlannedRun, harness: Harness) -> RunRecord:
    """Execute and score a run. If the backend connection breaks, repeat it once. Raises `is_no_result` errors."""
    scenario_state, counter = job.build(), RunCounter()
    started_at = time.monotonic()
    try:
        outcome = await harness.execute(job, scenario_state, counter)
    except BackendBroke:  # repeating shows whether the server is down or fails on this particular run
        scenario_state, counter = job.build(), RunCounter()
        try:
            outcome = await harness.execute(job, scenario_state, counter)
        except BackendBroke as error:
            outcome = RunOutcome(error="BackendBroke", detail=str(error))
    seconds = time.monotonic() - started_at
    wrong = scenario_state.validate(outcome.tool, outcome.args) if outcome.tool else None
    return RunRecord(
        config=job.config,
        scenario=job.scenario.name,
        tags=tuple(sorted(job.scenario.tags)),
        run=job.run,
        planned=job.planned,
        seed=job.seed,
        completeness=outcome.tool is not None,
        accuracy=None if outcome.tool is None else wrong is None,
        wrong=wrong,
        error=outcome.error,
        detail=outcome.detail,
        iterations=counter.iterations,
        ideal=len(scenario_state.ideal) or job.scenario.ideal_iterations,
        seconds=round(seconds, 4),
        retry_nudges=counter.retry_nudges,
        step_nudges=counter.step_nudges,
        prerequisite_nudges=counter.prerequisite_nudges,
        tool_errors=counter.tool_errors,
        compactions=tuple(counter.compactions),
        input_tokens=counter.input_tokens,
        output_tokens=counter.output_tokens,
        version=__version__,
        terminal=outcome.tool,
        args=dict(outcome.args),
    )
