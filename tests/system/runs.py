"""Daemons that execute runs, and runs for them."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.far_side import SECRET, FarSide
from tests.fakes.processes import Process, daemon, until

JsonDict = dict[str, Any]
RUNS = "/admin/v1/runs"
FINISHED = ("completed", "failed", "cancelled")


class Place:
    """A place where a daemon is started repeatedly, with one store and one far side."""

    def __init__(self, side: FarSide, folder: Path, url: str | None = None) -> None:
        self._side = side
        self.file = folder / "runs.db"
        self.url = url or f"sqlite+aiosqlite:///{self.file}"

    @contextmanager
    def daemon(
        self, *options: str, env: Mapping[str, str] | None = None, limits: Mapping[int, int] | None = None
    ) -> Generator[Process]:
        """Start a daemon there, with these limits by `resource.RLIMIT_...`."""
        callbacks = {"allow": [self._side.url], "secret": SECRET}
        settings = {"FORGE_PROXY_STORE__URL": self.url, "FORGE_PROXY_TOOLS__CALLBACKS": json.dumps(callbacks)}
        with daemon("--backend-url", self._side.url, *options, env={**settings, **(env or {})}, limits=limits) as proxy:
            yield proxy

    def unfinished(self) -> bool:
        """Whether a run on the disk has not ended."""
        with closing(sqlite3.connect(self.file)) as raw:
            return any(status not in FINISHED for (status,) in raw.execute("SELECT status FROM jobs"))

    def stored_keys(self) -> set[str]:
        """Return the keys of the calls whose outcome is stored on the disk."""
        with closing(sqlite3.connect(self.file)) as raw:
            rows = raw.execute("SELECT type, data FROM job_events").fetchall()
        events = [{**json.loads(data), "type": kind} for kind, data in rows]
        done = {event["tool_call_id"] for event in events if event["type"] == "tool_finished"}
        return {event["key"] for event in events if event["type"] == "tool_started" and event["tool_call_id"] in done}


def kill(proxy: Process) -> None:
    """kill -9, and wait for the end."""
    proxy.send_signal(signal.SIGKILL)
    assert proxy.wait() == -signal.SIGKILL


def submission(side: FarSide, *tools: str, by_caller: tuple[str, ...] = (), **fields: Any) -> JsonDict:
    """A run that calls these tools over HTTP; the last one ends it."""
    ways: JsonDict = {name: {"by": "http", "url": f"{side.url}/tools/{name}"} for name in tools}
    ways |= {name: {"by": "client"} for name in by_caller}
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    workflow = {
        "name": "w",
        "tools": {name: {"parameters": parameters, "execute": ways[name]} for name in tools},
        "required_steps": list(tools[:-1]),
        "terminal_tool": tools[-1],
        "system_prompt_template": "Do it.",
    }
    return {"workflow": workflow, "user_message": "Go.", "max_iterations": 30, **fields}


def submit(proxy: Process, body: JsonDict, **headers: str) -> JsonDict:
    """Submit it."""
    answer = httpx.post(proxy.url + RUNS, json=body, headers=headers, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.json()


def look(proxy: Process, run_id: str) -> JsonDict:
    """Return the run in its present state."""
    answer = httpx.get(f"{proxy.url}{RUNS}/{run_id}", timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.json()


def wait_until(proxy: Process, run_id: str, *statuses: str) -> JsonDict:
    """Return the run once it has this status."""
    until(lambda: look(proxy, run_id)["status"] in statuses, f"the run is {' or '.join(statuses)}")
    return look(proxy, run_id)


def events(proxy: Process, run_id: str, after: int = 0, most: int = 10_000) -> list[JsonDict]:
    """Return the events of a run: to its end, or as many as requested."""
    found: list[JsonDict] = []
    url = f"{proxy.url}{RUNS}/{run_id}/events"
    with httpx.stream("GET", url, headers={"Last-Event-ID": str(after)}, timeout=20) as answer:
        said: JsonDict = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                said[name] = value
            elif said:
                found.append({"id": int(said["id"]), "type": said["event"], "data": json.loads(said["data"])})
                said = {}
                if len(found) == most:
                    break
    return found


def orphans(messages: list[JsonDict]) -> list[str]:
    """Return calls without a following result, and results without a call."""
    waiting: list[str] = []
    found: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                found.append(f"result {message['tool_call_id']}")
            continue
        found += waiting
        waiting = [call["id"] for call in message.get("tool_calls", [])]
    return found + waiting
