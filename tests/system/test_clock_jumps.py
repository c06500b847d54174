"""A daemon whose wall clock jumps: requests and runs that wait are not affected, and the log has the new time."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.fakes.far_side import far_side
from tests.fakes.processes import Process, daemon, model_server
from tests.fakes.wall_clock import WallClock
from tests.system.asking import PATH, TOOL, ask, events, text
from tests.system.runs import RUNS, Place, submission, submit, wait_until

_DAY = 86_400
SETTINGS = {
    "FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.1",
    "FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.1",
    "FORGE_PROXY_BACKEND__SILENCE_SECONDS": "60",
    "FORGE_PROXY_SERVER__DRAIN_SECONDS": "60",
}


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@contextmanager
def streaming(proxy: Process, model: str, **fields: object) -> Generator[Iterator[str]]:
    """The lines of a streamed response."""
    with httpx.stream("POST", proxy.url + PATH, json=ask(model, stream=True, **fields), timeout=20) as response:
        yield response.iter_lines()


def read_keepalives(lines: Iterator[str], count: int) -> None:
    """Read until this many chunks without content have come."""
    for line in lines:
        if line.startswith("data: ") and not text(events([line])):
            count -= 1
        if not count:
            return
    raise AssertionError("the stream has ended")


def logged_at(line: dict[str, object]) -> datetime:
    return datetime.fromisoformat(str(line["timestamp"]))


@pytest.mark.parametrize("seconds", [_DAY, -_DAY], ids=["forward", "back"])
def test_streams_that_wait_are_kept_alive_and_answered(clock: WallClock, seconds: int) -> None:
    with (
        model_server(slots=1) as server,
        daemon("--backend-url", server.url, env={**SETTINGS, **clock.settings}) as proxy,
    ):
        with streaming(proxy, "slow", tools=[TOOL]) as generating:
            read_keepalives(generating, 2)
            with streaming(proxy, "says") as queued:
                read_keepalives(queued, 2)

                clock.jump(seconds)

                read_keepalives(generating, 5)
                read_keepalives(queued, 5)
                httpx.post(server.url + "/go")
                first, second = [text(events(lines)) for lines in (generating, queued)]
        code = proxy.stop()
    log = [json.loads(line) for line in proxy.printed.splitlines()]

    assert (first, second) == ("one two three", "one two three")
    assert code == 0
    requests = [line for line in log if line["event"] == "answered"]
    assert len(requests) == 2
    assert all(0 <= line["seconds"] < 60 for line in requests)
    assert all(abs(logged_at(line) - datetime.now(UTC) - timedelta(seconds=seconds)) < timedelta(hours=1)
               for line in requests)  # fmt: skip


def test_runs_that_wait_for_a_tool_output_accept_it_and_end(clock: WallClock, tmp_path: Path) -> None:
    with far_side() as side, Place(side, tmp_path).daemon(env={**SETTINGS, **clock.settings}) as proxy:
        for seconds in (_DAY, -_DAY):
            run = submit(proxy, submission(side, "look", "finish", by_caller=("look",)))
            waiting = wait_until(proxy, run["id"], "requires_action")

            clock.jump(seconds)
            later = submit(proxy, submission(side, "look", "finish"))
            ended_later = wait_until(proxy, later["id"], "completed", "failed")
            (call,) = waiting["required_action"]
            output = {"outputs": [{"tool_call_id": call["id"], "output": "seen"}]}
            httpx.post(f"{proxy.url}{RUNS}/{run['id']}/tool_outputs", json=output, timeout=20).raise_for_status()
            ended = wait_until(proxy, run["id"], "completed", "failed")
            listed = httpx.get(proxy.url + RUNS, timeout=20).json()

            assert (ended["status"], ended_later["status"]) == ("completed", "completed"), f"after {seconds} s"
            assert {run["id"], later["id"]} <= {entry["id"] for entry in listed["data"]}, f"after {seconds} s"
