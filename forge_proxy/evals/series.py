"""Makes many runs: what is to be made, what is there already, several at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from forge_proxy.evals.ablation import Ablation, Surface
from forge_proxy.evals.record import EvalConfiguration, RunRecord
from forge_proxy.evals.results import ResultsFile
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.single_run import Harness, PlannedRun, make_run


def jobs_of(
    config: EvalConfiguration, cells: Sequence[tuple[Surface, Ablation]], scenarios: Sequence[Scenario], runs: int
) -> Sequence[PlannedRun]:
    """Every run of one configuration, on these surfaces and under these presets.

    The first run of everything comes first, then the second: whenever it is stopped, all cells have about as many runs,
    and what slows the machine down meanwhile slows all of them.
    """
    planned = len(scenarios) * runs
    each = [
        (preset, config.model_copy(update={"surface": surface, "ablation": preset.name})) for surface, preset in cells
    ]
    return tuple(
        PlannedRun(one, preset, scenario, run, planned)
        for run in range(runs)
        for scenario in scenarios
        for preset, one in each
    )


def missing(jobs: Iterable[PlannedRun], there: Iterable[RunRecord]) -> Sequence[PlannedRun]:
    """The jobs of which there is no record yet."""
    done = {record.key for record in there}
    return tuple(job for job in jobs if (job.config.key, job.scenario.name, job.run) not in done)


async def make_runs(
    jobs: Iterable[PlannedRun],
    stages: Mapping[Surface, Harness],
    keep: ResultsFile | None,
    heard: Callable[[RunRecord], None],
    parallel: int,
    *,
    until: float | None = None,
) -> None:
    """Make the runs, `parallel` at a time, each kept and told of when it has ended.

    None is begun after `until`, by the event loop's clock. Raises what a stage raises; the runs under way are then
    stopped, and what was kept stays.
    """
    left = deque(jobs)
    clock = asyncio.get_running_loop()

    async def work() -> None:
        while left and (until is None or clock.time() < until):
            job = left.popleft()
            record = await make_run(job, stages[job.config.surface])
            if keep is not None:
                await asyncio.to_thread(keep.add, record)
            heard(record)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(parallel):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
