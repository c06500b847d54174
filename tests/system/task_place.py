"""A repository, a store and a scripted model server, on which several daemons work on tasks in turn.

Real git and real ruff in real bubblewrap. The model server counts what it is asked.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.fakes.processes import Process, daemon, program, until
from tests.fakes.repository import UserRepository, create_repository
from tests.system.runs import kill

JsonDict = dict[str, Any]
TASKS = "/admin/v1/tasks"
ENDS = ("requires_action", "halted", "failed")
_FILES = {"shop/cart.py": "ITEMS = []\n", "shop/tax.py": "RATE = 19\n", "README.md": "# Shop\n"}


def write(path: str, content: str, **when: object) -> JsonDict:
    """A rule of the model: it writes one file."""
    return write_all({path: content}, **when)


def write_all(contents: Mapping[str, str], **when: object) -> JsonDict:
    """A rule of the model: it writes these files."""
    files = [{"path": path, "content": content} for path, content in contents.items()]
    return {"when": {"operation": "generate", **when}, "respond": {"files": files}}


def submission(task_id: str, *targets: str, plan: bool = False) -> JsonDict:
    """A task that changes these files."""
    return {"task": {"task_id": task_id, "description": "Change the shop.", "target_files": [*targets]}, "plan": plan}


SINGLE = submission("t1", "shop/cart.py")


@dataclass(frozen=True)
class Result:
    """What tasks have left in the repository."""

    commits: Mapping[str, tuple[str, ...]]
    """Tree, author and message of each commit of each branch."""
    base: str


@dataclass(frozen=True)
class Kill:
    """What had happened when a daemon was killed."""

    requests: int
    """The requests that the model server had received."""
    stored: frozenset[str]
    """The calls whose responses were stored."""


class TaskPlace:
    """A repository, a store and a model server, for several daemons in turn."""

    def __init__(
        self,
        folder: Path,
        rules: Sequence[JsonDict],
        tasks: Sequence[JsonDict] = (SINGLE,),
        *,
        store: str | None = None,
    ) -> None:
        self.folder = folder
        self.store = store or f"sqlite+aiosqlite:///{folder}/jobs.db"
        self.tasks = tasks
        self.repository: UserRepository = create_repository(folder / "repo", dict(_FILES))
        self.rules = folder / "script.yaml"
        self.rules.write_text(yaml.safe_dump({"responses": [*rules]}))
        self.model = ""
        self.kills: list[Kill] = []

    @contextmanager
    def serve_model(self) -> Generator[None]:
        with program("tests.fakes.task_model", str(self.rules)) as model:
            self.model = model.url
            yield

    @contextmanager
    def daemon(
        self, limits: Mapping[int, int] | None = None, env: Mapping[str, str] | None = None
    ) -> Generator[Process]:
        """Start a daemon there, with these limits by `resource.RLIMIT_...`."""
        settings = {
            "FORGE_PROXY_STORE__URL": self.store,
            "FORGE_PROXY_TASKS__REPOSITORIES": str(self.repository.path),
            "XDG_STATE_HOME": str(self.folder / "state"),
            **(env or {}),
        }
        with daemon("--backend-url", self.model, env=settings, limits=limits) as proxy:
            yield proxy

    def submit(self, proxy: Process) -> None:
        """Submit all tasks, in order."""
        for task in self.tasks:
            body = {"repository": str(self.repository.path), **task}
            answer = httpx.post(proxy.url + TASKS, json=body, timeout=20)
            assert answer.status_code == 200, answer.text

    def wait(self, proxy: Process, *statuses: str, task: str = "t1") -> JsonDict:
        """Wait until the task has one of these statuses."""
        found: JsonDict = {}

        def has_status() -> bool:
            found.update(httpx.get(f"{proxy.url}{TASKS}/{task}", timeout=20).json())
            return found["status"] in statuses

        try:
            until(has_status, f"the task is {statuses}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {found}\n{proxy.printed}") from error
        return found

    def wait_for_all(self, proxy: Process) -> None:
        """Wait until all tasks await their review."""
        for task in self.tasks:
            done = self.wait(proxy, *ENDS, task=task["task"]["task_id"])
            assert done["status"] == "requires_action", done

    def kill(self, proxy: Process) -> None:
        """Kill the daemon with SIGKILL."""
        kill(proxy)
        self.kills.append(Kill(len(self._requests()), asyncio.run(self._stored_calls())))

    def asked(self) -> Counter[str]:
        """Return how often the model was asked for what."""
        return Counter(self._requests())

    def check_requests(self, undisturbed: Counter[str]) -> None:
        """No stored response was requested again, and nothing more often than the daemon was killed."""
        asked, requests = self.asked(), self._requests()
        assert set(asked) == set(undisturbed) == asyncio.run(self._stored_calls())
        for one in self.kills:
            assert not one.stored & {*requests[one.requests :]}, "a stored response was requested again"
        again = asked - undisturbed
        assert not again or max(again.values()) <= len(self.kills), again

    def result(self) -> Result:
        branches = [f"forge/{task['task']['task_id']}" for task in self.tasks]
        assert self.repository.git("branch", "--list", "--format=%(refname:short)", "forge/*").split() == branches
        logs = {branch: self.repository.git("log", "--format=%T %an %B", f"main..{branch}") for branch in branches}
        commits = {branch: tuple(log.split("\n\n\n")) for branch, log in logs.items()}
        return Result(commits, self.repository.head("main"))

    def check_leftovers(self) -> None:
        """Nothing but the branch is left: no worktree, no lock, no process."""
        assert len(self.repository.git("worktree", "list").splitlines()) == 1
        assert not list(self.repository.path.glob(".git/**/*.lock"))
        assert self.repository.git("status", "--porcelain") == ""
        files = [file for file in (self.folder / "state").rglob("worktrees/*/*") if file.suffix != ".json"]
        assert files == []
        assert _processes_in(self.folder) == []

    def _requests(self) -> list[str]:
        requests = httpx.get(f"{self.model}/requests", timeout=20).json()
        return [_key(one, one["retry"]) for one in requests if one["operation"] != "other"]

    async def _stored_calls(self) -> frozenset[str]:
        engine = create_async_engine(self.store)
        async with engine.connect() as connection:
            rows = await connection.execute(text("SELECT data FROM job_events WHERE type = 'called'"))
            events = [json.loads(data) for data in rows.scalars()]
        await engine.dispose()
        return frozenset(_key(event, event["attempt"] > 1) for event in events)


def _key(call: JsonDict, is_retry: bool) -> str:
    return f"{call['operation']} {call.get('step')} {is_retry}"


def _processes_in(folder: Path) -> list[str]:
    """The processes whose command line names the folder, apart from the model server."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if any(str(folder) in word for word in words) and "tests.fakes.task_model" not in words:
            found.append(" ".join(words))
    return found


def wait_for_event(proxy: Process, kind: str, number: int = 1, task: str = "t1") -> None:
    """Return when the event is stored for this time. The task may be a sub-task that does not exist yet."""
    url = f"{proxy.url}{TASKS}/{task}"
    until(lambda: httpx.get(url, timeout=20).status_code == 200, f"there is a task {task}")
    with httpx.stream("GET", f"{url}/events", timeout=60) as response:
        for line in response.iter_lines():
            number -= line == f"event: {kind}"
            if number == 0:
                return
    raise AssertionError(f"no event {kind}")
