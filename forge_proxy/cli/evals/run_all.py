"""Executes the runs of one model after the other and reports progress on stderr: a bar, or a line for each run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Required, TypedDict

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from forge_proxy.cli.evals.session import EvalSession, opened
from forge_proxy.core.errors import ForgeError
from forge_proxy.evals.ablation import Ablation, Surface
from forge_proxy.evals.record import EvalConfiguration, RunRecord, Strategy
from forge_proxy.evals.results import ResultsFile
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.series import execute_runs, find_missing, plan_runs
from forge_proxy.settings import Settings


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """One model, as it is served and told."""

    settings: Settings
    think: bool | None = None
    any_tool: bool = False

    @property
    def name(self) -> str:
        """What it is called before it is known what it is."""
        backend = self.settings.backend
        return backend.model or (backend.gguf.name if backend.gguf else str(backend.url or backend.kind))


@dataclass(frozen=True, slots=True)
class EvalPlan:
    """What is measured of each. `seconds` is after how long no more run is begun."""

    cells: Sequence[tuple[Surface, Ablation]]
    scenarios: Sequence[Scenario]
    runs: int
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
        """Those that are needed."""
        return tuple(dict.fromkeys(surface for surface, _ in self.cells))

    @property
    def size(self) -> int:
        """How many runs that are, of each model."""
        return len(self.cells) * len(self.scenarios) * self.runs


class EvalOptions(TypedDict, total=False):
    """The fields of a wish that are not what is measured but how."""

    runs: Required[int]
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
    """The runs of a wish, those that were there already included, and the models that could not be measured."""

    records: Sequence[RunRecord]
    failed: Mapping[str, str]


async def make_all(subjects: Sequence[EvaluatedModel], wish: EvalPlan, file: ResultsFile | None) -> EvalResults:
    """Make all runs that are not there yet. Of several models one that fails is passed over.

    Raises `ForgeError` for what the only one fails with.
    """
    console = Console(stderr=True, highlight=False)
    made: list[RunRecord] = []
    failed: dict[str, str] = {}
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=wish.size * len(subjects))

        def report(record: RunRecord) -> None:
            made.append(record)
            progress.advance(task)
            if wish.verbose or not console.is_terminal:
                position = f"{progress.tasks[0].completed:.0f}/{progress.tasks[0].total:.0f}"
                progress.console.print(f"{position} {describe_run(record)}", soft_wrap=True, markup=False)

        for subject in subjects:
            try:
                async with opened(subject.settings, wish.surfaces) as there:
                    progress.update(task, description=there.model)
                    made += await _make(there, subject, wish, file, report, lambda count: progress.advance(task, count))
            except ForgeError as error:
                if len(subjects) == 1:
                    raise
                failed[subject.name] = str(error)
    return EvalResults(made, failed)


async def _make(
    there: EvalSession,
    subject: EvaluatedModel,
    wish: EvalPlan,
    file: ResultsFile | None,
    heard: Callable[[RunRecord], None],
    skipped: Callable[[int], None],
) -> Sequence[RunRecord]:
    """Make the runs of one model, and give those that were there already."""
    jobs = plan_runs(configuration(there, subject, wish), wish.cells, wish.scenarios, wish.runs)
    keys = {(job.config.key, job.scenario.name, job.run) for job in jobs}
    old = [record for record in file.records if record.key in keys] if file else []
    skipped(len(old))
    until = None if wish.seconds is None else asyncio.get_running_loop().time() + wish.seconds
    parallel = wish.parallel or there.slots or 1
    await execute_runs(find_missing(jobs, old), there.stages, file, heard, parallel, until=until)
    return old


def configuration(there: EvalSession, subject: EvaluatedModel, wish: EvalPlan) -> EvalConfiguration:
    """What the runs of a model have in common."""
    return EvalConfiguration(
        model=there.model,
        backend=there.kind,
        mode=subject.settings.backend.tools,
        stream=wish.stream,
        think=subject.think,
        tool_choice="any" if subject.any_tool else "auto",
        temperature=wish.temperature,
        seed=wish.seed,
        max_tokens=wish.max_tokens,
        strategy=wish.strategy,
        budget_tokens=wish.budget,
        context=subject.settings.backend.llama_server.context,
    )


def describe_run(record: RunRecord) -> str:
    """Return one line about a finished run."""
    config = record.config
    outcome = "right" if record.is_correct else record.wrong or f"{record.error}: {record.detail}"
    name = f"{config.surface} {config.ablation} {record.scenario} #{record.run}"
    return f"{name}: {record.iterations} responses, {record.seconds:.1f} s, {' '.join(outcome.split())[:200]}"
