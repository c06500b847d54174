"""Series: which runs are executed, in which order, and what happens if one fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.evals.ablation import PRESETS, Ablation, Surface
from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.results import ResultsFile, read_results
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.series import execute_runs, find_missing, plan_runs
from forge_proxy.evals.single_run import PlannedRun, RunCounter, RunOutcome
from tests.evals.records import configuration
from tests.evals.scenes import TWO_STEPS, WORDS

CELLS: list[tuple[Surface, Ablation]] = [("runner", PRESETS["bare"]), ("runner", PRESETS["reforged"])]


class FakeHarness:
    """`Harness` whose runs succeed until run `gone`. `most` is the largest number of parallel runs."""

    def __init__(self, gone: int | None = None) -> None:
        self._gone = gone
        self._now = 0
        self.most = 0

    async def execute(self, job: PlannedRun, scenario_state: ScenarioState, counter: RunCounter) -> RunOutcome:
        if job.run == self._gone:
            raise BackendUnreachable("http://x", "refused")
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        return RunOutcome(next(iter(scenario_state.workflow.terminal_tools)), {"email": "bob@acme.com"})


def jobs(runs: int = 2) -> list[PlannedRun]:
    return list(
        plan_runs(
            configuration(), [("runner", PRESETS["bare"]), ("runner", PRESETS["reforged"])], [TWO_STEPS, WORDS], runs
        )
    )


def told(job: PlannedRun) -> tuple[int, str, str]:
    return job.run, job.scenario.name, job.config.ablation


def test_all_first_runs_come_before_all_second_runs() -> None:
    made = jobs()

    assert [told(job) for job in made[:5]] == [
        (0, "two_steps", "bare"),
        (0, "two_steps", "reforged"),
        (0, "words", "bare"),
        (0, "words", "reforged"),
        (1, "two_steps", "bare"),
    ]
    assert {job.planned for job in made} == {4}
    assert [job.seed for job in made[3:5]] == [0, 1]  # the same for all presets


async def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    heard: list[RunRecord] = []
    first = ResultsFile(path)
    with pytest.raises(BackendUnreachable):
        await execute_runs(jobs(), {"runner": FakeHarness(gone=1)}, first, heard.append, parallel=1)
    first.close()

    second = ResultsFile(path)
    left = find_missing(jobs(), second.records)
    await execute_runs(left, {"runner": FakeHarness()}, second, heard.append, parallel=1)
    second.close()

    assert {job.run for job in left} == {1}
    assert len(heard) == len(read_results([path])) == 8


def test_another_configuration_is_another_run() -> None:
    warm = plan_runs(configuration(temperature=1.0), CELLS[:1], [TWO_STEPS], 1)
    cold = plan_runs(configuration(temperature=0.0), CELLS[:1], [TWO_STEPS], 1)

    assert warm[0].config.key != cold[0].config.key


@pytest.mark.parametrize("parallel", [1, 3])
async def test_as_many_runs_are_made_at_a_time_as_may_be(parallel: int) -> None:
    stage = FakeHarness()
    heard: list[RunRecord] = []

    await execute_runs(jobs(), {"runner": stage}, None, heard.append, parallel)

    assert stage.most == parallel
    assert len(heard) == 8


async def test_none_is_begun_once_the_time_is_over() -> None:
    heard: list[RunRecord] = []
    now = asyncio.get_running_loop().time()

    await execute_runs(jobs(), {"runner": FakeHarness()}, None, heard.append, 2, until=now)

    assert heard == []
