"""Work for daemons that are disturbed: runs, batches, and random trees of jobs. Each takes about a second alone."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Protocol

import httpx

from tests.fakes.far_side import FarSide
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.processes import Process, daemon, until
from tests.fakes.random_jobs import check_random_jobs
from tests.system.runs import Place, events, look, orphans, submission, submit, wait_until

KINDS = ("run", "batch", "random")
SLOTS = 4
_TOOLS = [f"t{number}" for number in range(8)]


class Work(Protocol):
    """Work of one kind on one store, for several daemons in turn."""

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

    def __init__(self, side: FarSide, folder: Path, url: str | None = None) -> None:
        self._side = side
        self.place = Place(side, folder, url)
        self._run = ""
        self._known: list[tuple[set[str], Counter[str]]] = []

    def daemon(self) -> AbstractContextManager[Process]:
        return self.place.daemon()

    def submit(self, proxy: Process) -> None:
        self._run = submit(proxy, submission(self._side, *_TOOLS))["id"]

    def look_at_disk(self) -> None:
        self._known.append((self.place.stored_keys(), self._calls()))

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

    def __init__(self, side: FarSide, folder: Path, url: str | None = None, lines: int = 60) -> None:
        self._side = side
        self._lines = lines
        self.place = Place(side, folder, url)
        self._batch = ""
        self._known: list[tuple[set[int], Counter[str]]] = []

    def daemon(self) -> AbstractContextManager[Process]:
        return self.place.daemon(env={"FORGE_PROXY_BACKEND__SLOTS": str(SLOTS)})

    def submit(self, proxy: Process) -> None:
        url = "/v1/chat/completions"
        tools = [{"type": "function", "function": {"name": "finish", "parameters": {"type": "object"}}}]
        bodies = [
            {"messages": [{"role": "user", "content": str(n)}], "tools": tools} for n in range(1, self._lines + 1)
        ]
        lines = [{"custom_id": f"c{n}", "method": "POST", "url": url, "body": body} for n, body in enumerate(bodies, 1)]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        with httpx.Client(base_url=f"{proxy.url}/v1", timeout=20) as client:
            file = client.post("/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", content)}).json()
            request = {"input_file_id": file["id"], "endpoint": url, "completion_window": "24h"}
            self._batch = client.post("/batches", json=request).json()["id"]

    def look_at_disk(self) -> None:
        with closing(sqlite3.connect(self.place.file)) as raw:
            rows = raw.execute("SELECT data FROM job_events WHERE type = 'line'").fetchall()
        self._known.append(({json.loads(data)["line"] for (data,) in rows}, self._sent()))

    def check(self, proxy: Process, sides: Sequence[FarSide] = (), lost: int | None = None) -> None:
        """See `Work`. `sides` are all model servers, and at most `lost` lines are sent again."""
        with httpx.Client(base_url=f"{proxy.url}/v1", timeout=20) as client:
            until(lambda: client.get(f"/batches/{self._batch}").json()["status"] == "completed", "it is completed")
            output = client.get(f"/batches/{self._batch}").json()["output_file_id"]
            lines = client.get(f"/files/{output}/content").text.splitlines()
        assert [json.loads(line)["custom_id"] for line in lines] == [
            f"c{number}" for number in range(1, self._lines + 1)
        ]
        in_the_end = self._sent(sides)
        lost = len(self._known) * (SLOTS + 1) if lost is None else lost
        assert [n for done, sent in self._known for n in done if in_the_end[str(n)] != sent[str(n)]] == []
        assert sum(in_the_end.values()) <= self._lines + lost, "more lines than those in flight were sent again"

    def done(self, proxy: Process) -> int:
        """Return how many lines have a stored response."""
        batch = httpx.get(f"{proxy.url}/v1/batches/{self._batch}", timeout=20).json()
        return batch["request_counts"]["completed"]

    def _sent(self, sides: Sequence[FarSide] = ()) -> Counter[str]:
        return Counter(messages[-1]["content"] for side in sides or [self._side] for messages in side.asked)


class RandomWork:
    """Random trees of jobs of a kind that only the daemon of the tests has."""

    def __init__(self, side: FarSide, folder: Path, seed: int, url: str | None = None) -> None:
        self._seed = seed
        self._url = url or f"sqlite+aiosqlite:///{folder}/runs.db"
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


def make_work(kind: str, side: FarSide, folder: Path, seed: int, url: str | None = None) -> Work:
    """Return work of a kind on the store at a URL, or on an SQLite file in the folder."""
    match kind:
        case "run":
            return RunWork(side, folder, url)
        case "batch":
            return BatchWork(side, folder, url)
        case _:
            return RandomWork(side, folder, seed, url)
