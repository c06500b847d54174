"""Real daemons that share one PostgreSQL database through a real Temporal server."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.fakes.far_side import FarSide, far_side
from tests.fakes.postgres import Postgres, postgres
from tests.fakes.processes import Process, until
from tests.fakes.temporal_server import TemporalServer, temporal_server
from tests.system.runs import RUNS, JsonDict, Place, events, kill, submission, submit, wait_until
from tests.system.work import SLOTS, BatchWork

pytestmark = pytest.mark.temporal
HEARTBEAT = 5.0


@pytest.fixture(scope="module")
def server() -> Generator[TemporalServer]:
    with temporal_server() as server:
        yield server


@pytest.fixture
def database() -> Generator[Postgres]:
    with postgres() as database:
        yield database


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        yield side


class Cluster:
    """Daemons of one database, with task queues of their own."""

    def __init__(self, side: FarSide, database: Postgres, address: str, folder: Path) -> None:
        self._side = side
        self._folder = folder
        self.url = database.url
        self._env = {
            "FORGE_PROXY_JOBS__SCHEDULER": "temporal",
            "FORGE_PROXY_JOBS__TEMPORAL": json.dumps(
                {"address": address, "task_queue_prefix": f"{folder.name}-{time.time_ns():x}-"}
            ),
        }

    @contextmanager
    def daemon(self, side: FarSide | None = None, **env: str) -> Generator[Process]:
        """Start a daemon, whose model server is `side` if that is given."""
        place = Place(side or self._side, self._folder, self.url)
        with place.daemon(env={**self._env, **env}) as proxy:
            yield proxy


@pytest.fixture
def cluster(side: FarSide, database: Postgres, server: TemporalServer, tmp_path: Path) -> Cluster:
    return Cluster(side, database, server.address, tmp_path)


def test_d3_two_daemons_share_runs(cluster: Cluster, side: FarSide) -> None:
    with cluster.daemon() as first, cluster.daemon() as second:
        runs = [submit(proxy, submission(side, "look", "finish"))["id"] for proxy in (first, second) * 3]

        done = [wait_until(second, run, "completed", "failed") for run in runs]

        seen = [[event["type"] for event in events(first, run)] for run in runs]

    assert {run["status"] for run in done} == {"completed"}
    assert all(types[-1] == "status" for types in seen)


def test_d3_the_work_of_a_killed_daemon_is_taken_over(cluster: Cluster, side: FarSide) -> None:
    side.hold("model")
    with cluster.daemon() as first:
        run = submit(first, submission(side, "look", "finish"))["id"]
        side.wait_for_asked(1)
        with cluster.daemon() as second:
            kill(first)
            killed_at = time.monotonic()
            side.wait_for_asked(2)
            seconds = time.monotonic() - killed_at
            side.let_go("model")

            done = wait_until(second, run, "completed", "failed")

    assert done["status"] == "completed"
    assert seconds < HEARTBEAT + 5


def test_d3_a_stopped_daemon_loses_its_run_and_its_save_is_rejected(cluster: Cluster, side: FarSide) -> None:
    side.hold("model")
    with cluster.daemon() as first:
        run = submit(first, submission(side, "look", "finish"))["id"]
        side.wait_for_asked(1)
        with cluster.daemon() as second:
            second.wait_for("temporal connected")
            first.send_signal(signal.SIGSTOP)
            try:
                side.wait_for_asked(2)
                side.let_go("model")
                done = wait_until(second, run, "completed", "failed")
            finally:
                first.send_signal(signal.SIGCONT)
            after = httpx.get(f"{first.url}{RUNS}/{run}", timeout=20).json()
            ends = [event for event in events(first, run) if event["data"].get("status") == "completed"]

    assert done["status"] == after["status"] == "completed"
    assert done["messages"] == after["messages"]
    assert len(ends) == 1


def test_d3_cancelling_ends_a_generation_on_the_other_daemon(cluster: Cluster, side: FarSide) -> None:
    side.hold("model")
    with cluster.daemon() as first:
        run = submit(first, submission(side, "look", "finish"))["id"]
        side.wait_for_asked(1)
        with cluster.daemon() as second:
            second.wait_for("temporal connected")
            began = time.monotonic()
            answer = httpx.post(f"{second.url}{RUNS}/{run}/cancel", timeout=20)
            until(lambda: status_of(second, run) == "cancelled", "it is cancelled")
            seconds = time.monotonic() - began

    assert answer.status_code == 200
    assert seconds < 2


def test_d3_a_run_submitted_while_the_server_is_down_reports_queued(
    side: FarSide, database: Postgres, tmp_path: Path
) -> None:
    with temporal_server(is_started=False) as server:
        cluster = Cluster(side, database, server.address, tmp_path)
        with cluster.daemon() as first:
            run = submit(first, submission(side, "look", "finish"))
            first.wait_for("temporal unavailable")
            kill(first)
        server.start()
        with cluster.daemon() as second:
            done = wait_until(second, run["id"], "completed", "failed")

    assert (run["status"], done["status"]) == ("queued", "completed")


def test_d3_a_daemon_that_serves_no_queue_of_runs_runs_none(cluster: Cluster, side: FarSide) -> None:
    with cluster.daemon(FORGE_PROXY_JOBS__SERVE_QUEUES="lines") as first:
        run = submit(first, submission(side, "look", "finish"))["id"]
        with cluster.daemon(FORGE_PROXY_JOBS__SERVE_QUEUES="runs"):
            done = wait_until(first, run, "completed", "failed")

    assert done["status"] == "completed"


@pytest.mark.parametrize("is_killed", [False, True], ids=["both live", "one is killed"])
def test_d3_s_batch_two_daemons_share_a_batch_of_500_lines(cluster: Cluster, side: FarSide, is_killed: bool) -> None:
    """Each daemon has a model server of its own, which records what it was sent."""
    work, slots = BatchWork(side, Path(), lines=500), str(SLOTS)
    with far_side() as other:
        side.lag = other.lag = 0.05
        with (
            cluster.daemon(FORGE_PROXY_BACKEND__SLOTS=slots) as first,
            cluster.daemon(other, FORGE_PROXY_BACKEND__SLOTS=slots) as second,
        ):
            second.wait_for("temporal connected")
            work.submit(first)
            for each in (side, other):
                each.wait_for_asked(30)
            if is_killed:
                kill(first)
            work.check(second, [side, other], lost=SLOTS + 1 if is_killed else 0)


def status_of(proxy: Process, run: str) -> str:
    found: JsonDict = httpx.get(f"{proxy.url}{RUNS}/{run}", timeout=20).json()
    return found["status"]
