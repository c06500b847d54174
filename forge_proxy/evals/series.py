"""Plans and executes series of runs, several in parallel."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from forge_proxy.evals.ablation import Ablation, Surface
from forge_proxy.evals.clients import ClientKind
from forge_proxy.evals.record import EvalConfiguration, RunRecord
from forge_proxy.evals.results import ResultsFile
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.single_run import Harness, PlannedRun, execute_run


def plan_runs(
    config: EvalConfiguration,
    cells: Sequence[tuple[Surface, Ablation]],
    scenarios: Sequence[Scenario],
    runs: int,
    clients: Sequence[ClientKind] = ("scenario",),
) -> Sequence[PlannedRun]:
    """Return all runs of a configuration for the given pairs of surface and preset, on the proxy with each client.

    All first runs come before all second runs. If the series is interrupted, each pair has about as many runs, and
    other load on the machine affects all pairs alike.
    """
    planned = len(scenarios) * runs
    each = [
        (preset, config.model_copy(update={"surface": surface, "ablation": preset.name, "client": client}))
        for surface, preset in cells
        for client in (clients if surface == "proxy" else ("scenario",))
    ]
    return tuple(
        PlannedRun(one, preset, scenario, run, planned)
        for run in range(runs)
        for scenario in scenarios
        for preset, one in each
    )


def find_missing(planned: Iterable[PlannedRun], records: Iterable[RunRecord]) -> Sequence[PlannedRun]:
    """Return the planned runs without a record."""
    done = {record.key for record in records}
    return tuple(run for run in planned if (run.config.key, run.scenario.name, run.run) not in done)


async def execute_runs(
    planned: Iterable[PlannedRun],
    harnesses: Mapping[Surface, Harness],
    file: ResultsFile | None,
    report: Callable[[RunRecord], None],
    parallel: int,
    *,
    until: float | None = None,
) -> None:
    """Execute the runs, `parallel` at a time. Adds each finished run to `file` and passes it to `report`.

    Starts no run after `until`, a time of the event loop's clock. Raises the errors of a harness; the other runs are
    then cancelled, and finished ones remain in the file.
    """
    queue = deque(planned)
    clock = asyncio.get_running_loop()

    async def work() -> None:
        while queue and (until is None or clock.time() < until):
            run = queue.popleft()
            record = await execute_run(run, harnesses[run.config.surface])
            if file is not None:
                await asyncio.to_thread(file.add, record)
            report(record)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(parallel):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
