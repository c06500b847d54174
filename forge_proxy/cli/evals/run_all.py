"""Runs the scenarios of each model in turn. Reports progress on stderr: a bar, or a line for each run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Required, TypedDict

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from forge_proxy.cli.evals.session import EvalSession, open_session
from forge_proxy.core.errors import ForgeError
from forge_proxy.evals.ablation import Ablation, Surface
from forge_proxy.evals.clients import ClientKind
from forge_proxy.evals.record import EvalConfiguration, RunRecord, Strategy
from forge_proxy.evals.results import ResultsFile
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.series import execute_runs, find_missing, plan_runs
from forge_proxy.settings import Settings


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """A model, and how it is called."""

    settings: Settings
    think: bool | None = None
    any_tool: bool = False

    @property
    def name(self) -> str:
        """Its name before the server has reported one."""
        backend = self.settings.backend
        return backend.model or (backend.gguf.name if backend.gguf else str(backend.url or backend.kind))


@dataclass(frozen=True, slots=True)
class EvalPlan:
    """The measurements of each model. After `seconds` no further run starts."""

    cells: Sequence[tuple[Surface, Ablation]]
    scenarios: Sequence[Scenario]
    runs: int
    clients: Sequence[ClientKind] = ("scenario",)
    stream: bool = False
    temperature: float | None = None
    seed: int = 0
    max_tokens: int | None = None
    strategy: Strategy = "tiered"
    budget: int | None = None
    parallel: int | None = None
    seconds: float | None = None
    verbose: bool = False

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """The surfaces of all cells."""
        return tuple(dict.fromkeys(surface for surface, _ in self.cells))

    @property
    def size(self) -> int:
        """The number of runs per model."""
        cells = sum(len(self.clients) if surface == "proxy" else 1 for surface, _ in self.cells)
        return cells * len(self.scenarios) * self.runs


class EvalOptions(TypedDict, total=False):
    """The fields of a plan that define how it is measured."""

    runs: Required[int]
    clients: Sequence[ClientKind]
    stream: bool
    temperature: float | None
    seed: int
    max_tokens: int | None
    strategy: Strategy
    budget: int | None
    parallel: int | None
    verbose: bool


@dataclass(frozen=True, slots=True)
class EvalResults:
    """The runs of a plan, including those that were in the file before, and the errors of failed models."""

    records: Sequence[RunRecord]
    failed: Mapping[str, str]


async def run_models(models: Sequence[EvaluatedModel], plan: EvalPlan, file: ResultsFile | None) -> EvalResults:
    """Run everything that is not in the file yet. With several models, a failed one is skipped.

    With a single model, raises its `ForgeError`.
    """
    console = Console(stderr=True, highlight=False)
    made: list[RunRecord] = []
    failed: dict[str, str] = {}
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=plan.size * len(models))

        def on_record(record: RunRecord) -> None:
            made.append(record)
            progress.advance(task)
            if plan.verbose or not console.is_terminal:
                position = f"{progress.tasks[0].completed:.0f}/{progress.tasks[0].total:.0f}"
                progress.console.print(f"{position} {format_run(record)}", soft_wrap=True, markup=False)

        for model in models:
            try:
                async with open_session(
                    model.settings, plan.surfaces, [preset for surface, preset in plan.cells if surface == "proxy"]
                ) as session:
                    progress.update(task, description=session.model)
                    made += await _make(
                        session, model, plan, file, on_record, lambda count: progress.advance(task, count)
                    )
            except ForgeError as error:
                if len(models) == 1:
                    raise
                failed[model.name] = str(error)
    return EvalResults(made, failed)


async def _make(
    session: EvalSession,
    model: EvaluatedModel,
    plan: EvalPlan,
    file: ResultsFile | None,
    on_record: Callable[[RunRecord], None],
    on_skipped: Callable[[int], None],
) -> Sequence[RunRecord]:
    """Run the scenarios on one model; returns the records that were in the file before."""
    jobs = plan_runs(configuration(session, model, plan), plan.cells, plan.scenarios, plan.runs, plan.clients)
    keys = {(job.config.key, job.scenario.name, job.run) for job in jobs}
    old = [record for record in file.records if record.key in keys] if file else []
    on_skipped(len(old))
    until = None if plan.seconds is None else asyncio.get_running_loop().time() + plan.seconds
    parallel = plan.parallel or session.slots or 1
    await execute_runs(find_missing(jobs, old), session.harnesses, file, on_record, parallel, until=until)
    return old


def configuration(session: EvalSession, model: EvaluatedModel, plan: EvalPlan) -> EvalConfiguration:
    """Return the configuration that the runs of a model share."""
    return EvalConfiguration(
        model=session.model,
        backend=session.kind,
        mode=model.settings.backend.tools,
        stream=plan.stream,
        think=model.think,
        tool_choice="any" if model.any_tool else "auto",
        temperature=plan.temperature,
        seed=plan.seed,
        max_tokens=plan.max_tokens,
        strategy=plan.strategy,
        budget_tokens=plan.budget,
        context=model.settings.backend.llama_server.context,
    )


def format_run(record: RunRecord) -> str:
    """Return one line about a run."""
    config = record.config
    surface = config.surface if config.client == "scenario" else f"{config.surface} {config.client}"
    outcome = "right" if record.is_correct else record.wrong or f"{record.error}: {record.detail}"
    name = f"{surface} {config.ablation} {record.scenario} #{record.run}"
    return f"{name}: {record.iterations} responses, {record.seconds:.1f} s, {' '.join(outcome.split())[:200]}"
