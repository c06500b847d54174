"""Faults of the store under a running daemon: requests are served, runs wait, nothing is lost or repeated."""

from __future__ import annotations

import resource
import sqlite3
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.fakes.far_side import FarSide, far_side
from tests.fakes.processes import until
from tests.system.runs import RUNS, Place, submission, submit, wait_until
from tests.system.work import SLOTS, BatchWork


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        yield side


@pytest.fixture
def place(side: FarSide, tmp_path: Path) -> Place:
    return Place(side, tmp_path)


def test_a_run_waits_for_a_missing_store_and_requests_get_an_error(side: FarSide, place: Place) -> None:
    away = place.file.with_name("away")
    side.hold("look")
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        place.file.rename(away)
        side.let_go("look")

        answers = [httpx.get(f"{proxy.url}{RUNS}/{run['id']}", timeout=20) for _ in range(3)]
        refused = httpx.post(f"{proxy.url}{RUNS}", json=submission(side, "finish"), timeout=20)
        healthy = httpx.get(f"{proxy.url}/health", timeout=20)
        is_there = place.file.exists()
        away.rename(place.file)
        done = wait_until(proxy, run["id"], "completed", "failed")

    assert {answer.status_code for answer in (*answers, refused)} == {503}
    assert (refused.json()["error"]["code"], refused.headers["retry-after"]) == ("store_unavailable", "5")
    assert (healthy.status_code, is_there, done["status"]) == (200, False, "completed")
    assert Counter(call["tool"] for call in side.called) == {"look": 1, "finish": 1}
    assert proxy.printed.count('"store lost"') == 1


def test_a_run_waits_for_room_on_the_disk(side: FarSide, place: Place) -> None:
    side.hold("look")
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        unlimited = resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        side.let_go("look")

        refused = httpx.post(f"{proxy.url}{RUNS}", json=submission(side, "finish"), timeout=30)
        read = httpx.get(f"{proxy.url}{RUNS}/{run['id']}", timeout=30)
        resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE, unlimited)
        done = wait_until(proxy, run["id"], "completed", "failed")

    assert (refused.status_code, read.status_code, done["status"]) == (503, 200, "completed")
    assert Counter(call["tool"] for call in side.called) == {"look": 1, "finish": 1}


def test_fifty_submissions_at_once_with_one_key_are_one_run(side: FarSide, place: Place) -> None:
    body = submission(side, "look", "finish")
    with place.daemon() as proxy:
        with ThreadPoolExecutor(50) as clients:
            sent = [clients.submit(submit, proxy, body, **{"Idempotency-Key": "k"}) for _ in range(50)]
            ids = {each.result()["id"] for each in sent}
        (run_id,) = ids
        done = wait_until(proxy, run_id, "completed", "failed")

    assert done["status"] == "completed"
    assert Counter(call["tool"] for call in side.called) == {"look": 1, "finish": 1}
    with closing(sqlite3.connect(place.file)) as raw:
        assert raw.execute("SELECT count(*) FROM jobs").fetchone() == (1,)


def test_concurrent_cancels_and_the_end_of_a_run_leave_one_final_status(side: FarSide, place: Place) -> None:
    with place.daemon() as proxy:
        runs = [submit(proxy, submission(side, "look", "finish"))["id"] for _ in range(4)]
        with ThreadPoolExecutor(16) as clients:
            urls = [f"{proxy.url}{RUNS}/{run_id}/cancel" for run_id in runs * 8]
            sent = [clients.submit(httpx.post, url, timeout=30) for url in urls]
            answers = [each.result() for each in sent]
        done = [wait_until(proxy, run_id, "completed", "failed", "cancelled") for run_id in runs]

    assert {answer.status_code for answer in answers} <= {200, 409}
    assert {run["status"] for run in done} <= {"completed", "cancelled"}
    with closing(sqlite3.connect(place.file)) as raw:
        rows = raw.execute("SELECT job_id, data FROM job_events WHERE type = 'status'").fetchall()
    ends = Counter(run_id for run_id, data in rows if "completed" in data or "cancelled" in data)
    assert ends == dict.fromkeys(runs, 1)


def test_s_batch_a_batch_waits_for_room_on_the_disk(side: FarSide, tmp_path: Path) -> None:
    side.lag = 0.02
    work = BatchWork(side, tmp_path)
    with work.daemon() as proxy:
        work.submit(proxy)
        side.wait_for_asked(10)
        unlimited = resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        refused = httpx.post(f"{proxy.url}{RUNS}", json=submission(side, "finish"), timeout=30)
        stored = work.done(proxy)
        until(lambda: len(side.asked) == stored + SLOTS + 1, "no line is sent whose worker has not stored its last one")
        time.sleep(1.0)
        asked = len(side.asked)
        assert (refused.status_code, work.done(proxy), asked) == (503, stored, stored + SLOTS + 1)
        resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE, unlimited)

        work.check(proxy)
