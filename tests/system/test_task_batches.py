"""kill -9 of the daemon while the call of a task is a batch: the model server receives its request once."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.fakes.processes import until
from tests.system.test_tasks import AFTER, GENERATE, TaskPlace, kill, open_place


def _is_line_stored(place: TaskPlace) -> bool:
    """Whether a line of a batch has a stored response."""
    with closing(sqlite3.connect(place.state / "forge-proxy" / "runs.db", timeout=30)) as raw:
        (count,) = raw.execute("SELECT count(*) FROM job_events WHERE type = 'line'").fetchone()
        return count > 0


def test_s_batch_killed_between_submission_and_delivery_a_call_is_requested_once(tmp_path: Path) -> None:
    hour = time.localtime().tm_hour
    closed = {"FORGE_PROXY_JOBS__HOURS": f"{(hour + 10) % 24}:00-{(hour + 11) % 24}:00"}
    with open_place(tmp_path, GENERATE) as place:
        with place.daemon(closed) as proxy:
            place.submit(proxy, mode="batch")
            until(lambda: "submitted" in place.events(), "the batch exists")
            waiting = place.wait(proxy, "waiting")
            assert waiting["batch"] in place.run(proxy, "show", "total")
            assert place.requests() == []
            kill(proxy)
        with place.daemon() as proxy:
            until(lambda: _is_line_stored(place), "the response is stored with the batch")
            kill(proxy)  # before it is delivered to the task, or shortly after
        with place.daemon() as proxy:
            done = place.wait(proxy, "requires_action", "halted", "failed")

            assert done["status"] == "requires_action", done
            assert len(place.requests()) == 1
            assert place.events().count("submitted") == place.events().count("called") == 1
            assert place.repository.git("show", "forge/total:cart.py") == AFTER.strip()
