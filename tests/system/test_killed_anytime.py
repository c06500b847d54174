"""Disturbances at random moments, for each kind of work: nothing stored is done again, and all of it ends.

A seed decides two moments: one while the daemon works, and one while the next daemon starts and recovers. `make test`
tries some of the 30 seeds, `make test-all` each of them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fakes.far_side import FarSide, far_side
from tests.fakes.postgres import Postgres, postgres
from tests.properties import sample
from tests.system.runs import kill
from tests.system.work import KINDS, make_work

SEEDS = [int(name) for name in os.environ.get("FORGE_TEST_SEEDS", "").split()] or sample(range(30), 29)
"""FORGE_TEST_SEEDS="3 17" tries these again."""
_LAG = 0.05
"""Seconds of each response of the model server and of the tools."""


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        side.lag = _LAG
        yield side


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_d3_killed_at_random_moments(kind: str, seed: int, side: FarSide, tmp_path: Path) -> None:
    chance = random.Random(seed)
    moments = [chance.uniform(0, 1.0), chance.uniform(0, 1.0)]
    print(f"seed {seed}: killed {moments[0]:.3f} s after it was submitted, and {moments[1]:.3f} s after listening")  # noqa: T201
    work = make_work(kind, side, tmp_path, seed)
    with work.daemon() as proxy:
        work.submit(proxy)
        time.sleep(moments[0])
        kill(proxy)
    work.look_at_disk()
    with work.daemon() as proxy:
        time.sleep(moments[1])
        kill(proxy)
    work.look_at_disk()

    with work.daemon() as proxy:
        work.check(proxy)


@pytest.fixture(scope="module")
def server() -> Generator[Postgres]:
    """Return a PostgreSQL server that the tests of this file stop and start."""
    with postgres() as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", sample(SEEDS[:10], 9))
def test_d3_postgresql_is_stopped_and_started_at_random_moments(
    kind: str, seed: int, side: FarSide, server: Postgres, tmp_path: Path
) -> None:
    """Responses that came meanwhile are stored later: no line of the batch and no call of the run is repeated."""
    chance = random.Random(seed)
    moments = [chance.uniform(0, 1.0), chance.uniform(0, 1.0)]
    print(f"seed {seed}: stopped {moments[0]:.3f} s after it was submitted, for {moments[1]:.3f} s")  # noqa: T201
    work = make_work(kind, side, tmp_path, seed, server.create_database())
    with work.daemon() as proxy:
        work.submit(proxy)
        time.sleep(moments[0])
        server.stop()
        time.sleep(moments[1])
        server.start()

        work.check(proxy)
