"""Tasks of two real daemons that share a PostgreSQL database, a repository and a state folder through Temporal."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import httpx
import pytest

from tests.fakes.postgres import Postgres
from tests.fakes.processes import Process
from tests.fakes.temporal_server import TemporalServer, temporal_server
from tests.properties import sample
from tests.system.task_place import TASKS, TaskPlace, wait_for_event
from tests.system.task_scripts import MODES, PHASES, SCRIPTS, compare, open_place

pytestmark = pytest.mark.temporal


@pytest.fixture(scope="module")
def server() -> Generator[TemporalServer]:
    with temporal_server() as server:
        yield server


class TaskCluster:
    """Two daemons, with task queues of their own."""

    def __init__(self, folder: Path, script: str, database: str, address: str) -> None:
        self.place: TaskPlace = open_place(folder, script, database)
        prefix = f"{folder.name}-{time.time_ns():x}-"
        self._env = {
            "FORGE_PROXY_JOBS__SCHEDULER": "temporal",
            "FORGE_PROXY_JOBS__TEMPORAL": json.dumps({"address": address, "task_queue_prefix": prefix}),
        }

    @contextmanager
    def daemons(self) -> Generator[tuple[Process, Process]]:
        """Start both, and submit the tasks to the first one once the second one works."""
        with (
            self.place.serve_model(),
            self.place.daemon(env=self._env) as first,
            self.place.daemon(env=self._env) as second,
        ):
            second.wait_for("temporal connected")
            self.place.submit(first)
            yield first, second


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: Postgres, server: TemporalServer
) -> TaskCluster:
    """Return a cluster that works on the tasks of the test's script."""
    return TaskCluster(tmp_path, request.getfixturevalue("script"), postgres_server.create_database(), server.address)


@pytest.mark.parametrize("script", ["fan-out", "turns"])
def test_d3_two_daemons_share_tasks(cluster: TaskCluster, script: str) -> None:
    with cluster.daemons() as (_, second):
        compare(cluster.place, second, script)


@pytest.mark.parametrize(("script", "task", "event", "number"), [*sample(PHASES, 5), ("batched", "t1", "submitted", 1)])
def test_d3_the_tasks_of_a_killed_daemon_are_taken_over(
    cluster: TaskCluster, script: str, task: str, event: str, number: int
) -> None:
    """Which of the daemons is in the phase that follows the event is a matter of chance: the first one is killed."""
    with cluster.daemons() as (first, second):
        wait_for_event(second, event, number, task)
        cluster.place.kill(first)
        compare(cluster.place, second, script)


@pytest.mark.parametrize(("seed", "script"), sample([*product(range(30), MODES)], 10))
def test_d3_one_of_two_daemons_is_killed_at_a_random_moment(cluster: TaskCluster, script: str, seed: int) -> None:
    seconds = random.Random(seed).uniform(0, 2 * SCRIPTS[script].seconds)
    with cluster.daemons() as (first, second):
        time.sleep(seconds)
        cluster.place.kill(first)
        compare(cluster.place, second, script)


@pytest.mark.parametrize("script", ["single"])
def test_d7_a_branch_is_approved_on_the_other_daemon(cluster: TaskCluster, script: str) -> None:
    with cluster.daemons() as (_, second):
        compare(cluster.place, second, script)
        answer = httpx.post(f"{second.url}{TASKS}/t1/approve", json={}, timeout=20)
        done = cluster.place.wait(second, "completed", "failed")

    assert answer.status_code == 200, answer.text
    assert done["status"] == "completed"
    assert cluster.place.repository.git("show", "main:shop/cart.py") == "ITEMS = [1]"
