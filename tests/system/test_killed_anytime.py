"""kill -9 of the daemon at random moments, for each kind of work: nothing stored is done again, and all of it ends.

A seed decides two moments: one while the daemon works, and one while the next daemon starts and recovers. `make test`
tries some of the 30 seeds, `make test-all` each of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Protocol

import httpx
import pytest

from tests.fakes.far_side import FarSide, far_side
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.processes import Process, daemon, until
from tests.fakes.random_jobs import check_random_jobs
from tests.properties import sample
from tests.system.runs import Place, events, kill, look, orphans, submission, submit, wait_until

SEEDS = [int(name) for name in os.environ.get("FORGE_TEST_SEEDS", "").split()] or sample(range(30), 29)
"""FORGE_TEST_SEEDS="3 17" tries these again."""
_TOOLS = [f"t{number}" for number in range(8)]
_LINES = 60
_SLOTS = 4
_LAG = 0.05
"""Seconds of each response of the model server and of the tools."""


class Work(Protocol):
    """Work of one kind on one store, for several daemons in turn. It takes about a second without kills."""

    def daemon(self) -> AbstractContextManager[Process]:
        """Start a daemon."""
        ...

    def submit(self, proxy: Process) -> None:
        """Submit the work, unless the daemon has it by itself."""
        ...

    def look_at_disk(self) -> None:
        """Note what is stored, after a kill."""
        ...

    def check(self, proxy: Process) -> None:
        """Wait for the end of the work, and compare what was done with what was stored."""
        ...


class RunWork:
    """A run that calls eight tools."""

    def __init__(self, side: FarSide, folder: Path) -> None:
        self._side = side
        self._place = Place(side, folder)
        self._run = ""
        self._known: list[tuple[set[str], Counter[str]]] = []

    def daemon(self) -> AbstractContextManager[Process]:
        return self._place.daemon()

    def submit(self, proxy: Process) -> None:
        self._run = submit(proxy, submission(self._side, *_TOOLS))["id"]

    def look_at_disk(self) -> None:
        self._known.append((self._place.stored_keys(), self._calls()))

    def check(self, proxy: Process) -> None:
        run = wait_until(proxy, self._run, "completed", "failed")
        assert (run["status"], run["error"], run["completed_steps"]) == ("completed", None, _TOOLS)
        assert [event["id"] for event in events(proxy, self._run)] == [*range(1, run["last_event"] + 1)]
        assert [found for messages in (*self._side.asked, run["messages"]) if (found := orphans(messages))] == []
        assert look(proxy, self._run) == run
        in_the_end = self._calls()
        assert [key for stored, calls in self._known for key in stored if in_the_end[key] != calls[key]] == []

    def _calls(self) -> Counter[str]:
        return Counter(call["key"] for call in self._side.called)


class BatchWork:
    """A batch of lines, each of which calls a tool."""

    def __init__(self, side: FarSide, folder: Path) -> None:
        self._side = side
        self._place = Place(side, folder)
        self._batch = ""
        self._known: list[tuple[set[int], Counter[str]]] = []

    def daemon(self) -> AbstractContextManager[Process]:
        return self._place.daemon(env={"FORGE_PROXY_BACKEND__SLOTS": str(_SLOTS)})

    def submit(self, proxy: Process) -> None:
        url = "/v1/chat/completions"
        tools = [{"type": "function", "function": {"name": "finish", "parameters": {"type": "object"}}}]
        bodies = [{"messages": [{"role": "user", "content": str(n)}], "tools": tools} for n in range(1, _LINES + 1)]
        lines = [{"custom_id": f"c{n}", "method": "POST", "url": url, "body": body} for n, body in enumerate(bodies, 1)]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        with httpx.Client(base_url=f"{proxy.url}/v1", timeout=20) as client:
            file = client.post("/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", content)}).json()
            request = {"input_file_id": file["id"], "endpoint": url, "completion_window": "24h"}
            self._batch = client.post("/batches", json=request).json()["id"]

    def look_at_disk(self) -> None:
        with closing(sqlite3.connect(self._place.file)) as raw:
            rows = raw.execute("SELECT data FROM job_events WHERE type = 'line'").fetchall()
        self._known.append(({json.loads(data)["line"] for (data,) in rows}, self._sent()))

    def check(self, proxy: Process) -> None:
        with httpx.Client(base_url=f"{proxy.url}/v1", timeout=20) as client:
            until(lambda: client.get(f"/batches/{self._batch}").json()["status"] == "completed", "it is completed")
            output = client.get(f"/batches/{self._batch}").json()["output_file_id"]
            lines = client.get(f"/files/{output}/content").text.splitlines()
        assert [json.loads(line)["custom_id"] for line in lines] == [f"c{number}" for number in range(1, _LINES + 1)]
        in_the_end, lost = self._sent(), len(self._known) * (_SLOTS + 1)
        assert [n for done, sent in self._known for n in done if in_the_end[str(n)] != sent[str(n)]] == []
        assert sum(in_the_end.values()) <= _LINES + lost, "more lines than those in flight were sent again"

    def _sent(self) -> Counter[str]:
        return Counter(messages[-1]["content"] for messages in self._side.asked)


class RandomWork:
    """Random trees of jobs of a kind that only the daemon of the tests has."""

    def __init__(self, side: FarSide, folder: Path, seed: int) -> None:
        self._seed = seed
        self._url = f"sqlite+aiosqlite:///{folder}/runs.db"
        self._backend = side.url

    def daemon(self) -> AbstractContextManager[Process]:
        env = {"FORGE_PROXY_STORE__URL": self._url, "FORGE_TEST_SEED": str(self._seed)}
        return daemon("--backend-url", self._backend, env=env, module="tests.fakes.random_jobs_daemon")

    def submit(self, proxy: Process) -> None:
        pass

    def look_at_disk(self) -> None:
        pass

    def check(self, proxy: Process) -> None:
        proxy.wait_for("random jobs ended")
        proxy.stop()
        asyncio.run(self._check_store())

    async def _check_store(self) -> None:
        store = await OwnedJobRepository.open(self._url)
        await check_random_jobs(self._seed, store)
        await store.close()


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        side.lag = _LAG
        yield side


def make_work(kind: str, side: FarSide, folder: Path, seed: int) -> Work:
    match kind:
        case "run":
            return RunWork(side, folder)
        case "batch":
            return BatchWork(side, folder)
        case _:
            return RandomWork(side, folder, seed)


@pytest.mark.parametrize("kind", ["run", "batch", "random"])
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
