"""kill -9 of the daemon while it works on tasks: the same commits, no stored response requested again, nothing left
behind.
"""

from __future__ import annotations

import os
import random
import time
from itertools import product
from pathlib import Path

import pytest

from tests.fakes.postgres import Postgres
from tests.properties import sample
from tests.system.task_place import TaskPlace, wait_for_event
from tests.system.task_scripts import MODES, PHASES, SCRIPTS, compare, open_place

_SEEDS = [int(name) for name in os.environ.get("FORGE_TEST_SEEDS", "").split()]
"""FORGE_TEST_SEEDS="3 17" tries these again."""
_MATRIX = [*product(_SEEDS or range(30), MODES)]
_MOMENTS = _MATRIX if _SEEDS else sample(_MATRIX, 43)
_POSTGRESQL_MOMENTS = _MATRIX if _SEEDS else sample(_MATRIX, 46)


@pytest.mark.parametrize(("script", "task", "event", "number"), sample(PHASES, 11))
def test_d3_killed_in_each_phase(script: str, task: str, event: str, number: int, tmp_path: Path) -> None:
    """The daemon is killed in the phase that follows the event."""
    place = open_place(tmp_path, script)
    with place.serve_model():
        with place.daemon() as proxy:
            place.submit(proxy)
            wait_for_event(proxy, event, number, task)
            place.kill(proxy)
        with place.daemon() as proxy:
            compare(place, proxy, script)


@pytest.mark.parametrize(("seed", "script"), _MOMENTS)
def test_d3_killed_at_random_moments_of_a_task(script: str, seed: int, tmp_path: Path) -> None:
    kill_at_random(open_place(tmp_path, script), script, seed)


@pytest.mark.parametrize(("seed", "script"), _POSTGRESQL_MOMENTS)
def test_d3_killed_at_random_moments_of_a_task_in_postgresql(
    script: str, seed: int, postgres_server: Postgres, tmp_path: Path
) -> None:
    kill_at_random(open_place(tmp_path, script, postgres_server.create_database()), script, seed)


def kill_at_random(place: TaskPlace, script: str, seed: int) -> None:
    """Kill the daemon while it works on a task, and the next one while it starts or continues."""
    chance = random.Random(seed)
    seconds = SCRIPTS[script].seconds
    moments = [chance.uniform(0, seconds), chance.uniform(0, 0.75 * seconds)]
    print(f"seed {seed}: killed {moments[0]:.3f} s after it was submitted, and {moments[1]:.3f} s after listening")  # noqa: T201
    with place.serve_model():
        with place.daemon() as proxy:
            place.submit(proxy)
            time.sleep(moments[0])
            place.kill(proxy)
        with place.daemon() as proxy:
            time.sleep(moments[1])
            place.kill(proxy)
        with place.daemon() as proxy:
            compare(place, proxy, script)
