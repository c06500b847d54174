"""A run of a scenario, whatever it is made through: its terms, what came of it, and the record that is made of that."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from forge_proxy import __version__
from forge_proxy.core.errors import (
    BackendBroke,
    BackendDown,
    BackendError,
    BackendLost,
    BackendNotReady,
    BackendUnreachable,
    ForgeError,
    ModelNotLoaded,
    Overloaded,
)
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, no_fields
from forge_proxy.evals.ablation import Ablation
from forge_proxy.evals.record import EvalConfiguration, RunRecord
from forge_proxy.evals.scenario import Scenario, ScenarioState

_OF_THE_SERVER = frozenset({401, 403, 404, 429, 502, 503, 529})
"""HTTP statuses that say nothing of how a model does: no key, no such model, busy."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run that is to be made. `planned` is how many its series has."""

    config: EvalConfiguration
    preset: Ablation
    scenario: Scenario
    run: int
    planned: int

    @property
    def seed(self) -> int:
        """The same for the same run in every configuration, so that runs can be compared in pairs."""
        return self.config.seed + self.run

    @property
    def options(self) -> JsonObject:
        """The fields of its requests."""
        config = self.config
        said: dict[str, Json] = {
            "seed": self.seed,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "tool_choice": "required" if config.tool_choice == "any" else None,
        }
        return {name: value for name, value in said.items() if value is not None}


@dataclass(slots=True)
class RunCounter:
    """Counts while a run is made."""

    iterations: int = 0
    retry_nudges: int = 0
    step_nudges: int = 0
    prerequisite_nudges: int = 0
    tool_errors: int = 0
    compactions: list[int] = field(default_factory=list[int])
    input_tokens: int | None = None
    output_tokens: int | None = None

    def spend(self, usage: JsonObject) -> None:
        """Add the tokens of one answer, as the model server counts them."""
        if is_integer(tokens := usage.get("prompt_tokens")):
            self.input_tokens = (self.input_tokens or 0) + tokens
        if is_integer(tokens := usage.get("completion_tokens")):
            self.output_tokens = (self.output_tokens or 0) + tokens


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: with the call of a terminal `tool`, or with an `error`, in one word and in more."""

    tool: str | None = None
    args: JsonObject = field(default_factory=no_fields)
    error: str | None = None
    detail: str | None = None


class Harness(Protocol):
    """Something to make runs through."""

    async def play(self, job: PlannedRun, world: ScenarioState, tally: RunCounter) -> RunOutcome:
        """Make the run. Raises what has to do with the model server and not with the model (`is_no_result`), and
        `BackendBroke`.
        """
        ...


def is_no_result(error: ForgeError) -> bool:
    """Whether a fault says nothing of the model: then the run is not counted, and may be made later."""
    gone = (BackendUnreachable, BackendDown, BackendLost, BackendNotReady, ModelNotLoaded, Overloaded)
    return isinstance(error, gone) or (isinstance(error, BackendError) and error.status in _OF_THE_SERVER)


async def make_run(job: PlannedRun, stage: Harness) -> RunRecord:
    """Make one run, and judge it. One that breaks off is made anew, once. Raises what is no result."""
    world, tally = job.scenario.build(job.run), RunCounter()
    began = time.monotonic()
    try:
        played = await stage.play(job, world, tally)
    except BackendBroke:  # the server is gone, which asking again will show, or it cannot cope with this very run
        world, tally = job.scenario.build(job.run), RunCounter()
        try:
            played = await stage.play(job, world, tally)
        except BackendBroke as error:
            played = RunOutcome(error="BackendBroke", detail=str(error))
    seconds = time.monotonic() - began
    wrong = world.validate(played.tool, played.args) if played.tool else None
    return RunRecord(
        config=job.config,
        scenario=job.scenario.name,
        tags=tuple(sorted(job.scenario.tags)),
        run=job.run,
        planned=job.planned,
        seed=job.seed,
        completeness=played.tool is not None,
        accuracy=None if played.tool is None else wrong is None,
        wrong=wrong,
        error=played.error,
        detail=played.detail,
        iterations=tally.iterations,
        ideal=job.scenario.ideal_iterations,
        seconds=round(seconds, 4),
        retry_nudges=tally.retry_nudges,
        step_nudges=tally.step_nudges,
        prerequisite_nudges=tally.prerequisite_nudges,
        tool_errors=tally.tool_errors,
        compactions=tuple(tally.compactions),
        input_tokens=tally.input_tokens,
        output_tokens=tally.output_tokens,
        version=__version__,
        terminal=played.tool,
        args=dict(played.args),
    )
