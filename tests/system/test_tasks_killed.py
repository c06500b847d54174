"""kill -9 of the daemon while it works on a task: the same commits, no response requested twice, nothing left behind.

Real git and real ruff in real bubblewrap, and a scripted model server that counts what it is asked.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from tests.fakes.postgres import Postgres
from tests.fakes.processes import Process, daemon, program, until
from tests.fakes.repository import UserRepository, create_repository
from tests.properties import sample
from tests.system.runs import kill

JsonDict = dict[str, Any]
TASKS = "/admin/v1/tasks"
_FILES = {"shop/cart.py": "ITEMS = []\n", "shop/tax.py": "RATE = 19\n", "README.md": "# Shop\n"}
_SEEDS = [int(name) for name in os.environ.get("FORGE_TEST_SEEDS", "").split()]
"""FORGE_TEST_SEEDS="3 17" tries these again."""


def write(path: str, content: str, **when: object) -> JsonDict:
    """A rule of the model: it writes one file."""
    return {"when": {"operation": "generate", **when}, "respond": {"files": [{"path": path, "content": content}]}}


_SINGLE = [
    write("shop/cart.py", "ITEMS = undefined\n", is_retry=False),  # a finding of ruff: the second attempt is good
    write("shop/cart.py", "ITEMS = [1]\n", is_retry=True),
]
_PLAN = {
    "explanation": "Two steps.",
    "steps": [
        {"id": "cart", "description": "Add an item.", "target_files": ["shop/cart.py"]},
        {"id": "tax", "description": "Change the rate.", "target_files": ["shop/tax.py"]},
    ],
}
_PLANNED = [
    {"when": {"operation": "plan"}, "respond": _PLAN},
    write("shop/cart.py", "ITEMS = undefined\n", step="cart", is_retry=False),
    write("shop/cart.py", "ITEMS = [1]\n", step="cart", is_retry=True),
    write("shop/tax.py", "RATE = 7\n", step="tax"),
]
# Equal requests have equal responses: a request that is sent again, because the daemon was killed, takes nothing away.
_SCRIPTS = {"single": _SINGLE, "planned": _PLANNED}
_MOMENTS = [*product(_SEEDS, _SCRIPTS)] or sample([*product(range(30), _SCRIPTS)], 13)
_POSTGRESQL_MOMENTS = [*product(_SEEDS, _SCRIPTS)] or sample([*product(range(30), _SCRIPTS)], 59)


@dataclass(frozen=True)
class Result:
    """What a task has left in the repository."""

    commits: tuple[str, ...]
    """Tree, author and message of each commit of the branch."""
    base: str


class TaskPlace:
    """A repository, a store and a model server, for several daemons in turn."""

    def __init__(
        self, folder: Path, rules: Sequence[JsonDict], *, is_planned: bool = False, store: str | None = None
    ) -> None:
        self.folder = folder
        self.store = store or f"sqlite+aiosqlite:///{folder}/jobs.db"
        self.is_planned = is_planned
        self.repository: UserRepository = create_repository(folder / "repo", dict(_FILES))
        self.rules = folder / "script.yaml"
        self.rules.write_text(yaml.safe_dump({"responses": [*rules]}))
        self.model = ""

    @contextmanager
    def serve_model(self) -> Generator[None]:
        with program("tests.fakes.task_model", str(self.rules)) as model:
            self.model = model.url
            yield

    @contextmanager
    def daemon(self, limits: Mapping[int, int] | None = None) -> Generator[Process]:
        """Start a daemon there, with these limits by `resource.RLIMIT_...`."""
        settings = {
            "FORGE_PROXY_STORE__URL": self.store,
            "FORGE_PROXY_TASKS__REPOSITORIES": str(self.repository.path),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        with daemon("--backend-url", self.model, env=settings, limits=limits) as proxy:
            yield proxy

    def submit(self, proxy: Process) -> None:
        targets = ["shop/cart.py", "shop/tax.py"] if self.is_planned else ["shop/cart.py"]
        task = {"task_id": "t1", "description": "Change the shop.", "target_files": targets}
        body = {"repository": str(self.repository.path), "task": task, "plan": self.is_planned}
        answer = httpx.post(proxy.url + TASKS, json=body, timeout=20)
        assert answer.status_code == 200, answer.text

    def wait(self, proxy: Process, *statuses: str) -> JsonDict:
        """Wait until the task has one of these statuses."""
        found: JsonDict = {}

        def has_status() -> bool:
            found.update(httpx.get(f"{proxy.url}{TASKS}/t1", timeout=20).json())
            return found["status"] in statuses

        try:
            until(has_status, f"the task is {statuses}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {found}\n{proxy.printed}") from error
        return found

    def asked(self) -> Counter[str]:
        """Return how often the model was asked for what."""
        requests = httpx.get(f"{self.model}/requests", timeout=20).json()
        return Counter(
            f"{one['operation']} {one['step']} {one['retry']}" for one in requests if one["operation"] != "other"
        )

    def result(self) -> Result:
        log = self.repository.git("log", "--format=%T %an %B", "main..forge/t1")
        return Result(tuple(log.split("\n\n\n")), self.repository.head("main"))

    def check_leftovers(self) -> None:
        """Nothing but the branch is left: no worktree, no lock, no process."""
        assert len(self.repository.git("worktree", "list").splitlines()) == 1
        assert not list(self.repository.path.glob(".git/**/*.lock"))
        assert self.repository.git("status", "--porcelain") == ""
        files = [file for file in (self.folder / "state").rglob("worktrees/*/*") if file.suffix != ".json"]
        assert files == []
        assert _processes_in(self.folder) == []


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


def open_place(folder: Path, script: str, store: str | None = None) -> TaskPlace:
    return TaskPlace(folder, _SCRIPTS[script], is_planned=script == "planned", store=store)


_UNDISTURBED: dict[str, tuple[Result, Counter[str]]] = {}


def undisturbed(script: str, folder: Path) -> tuple[Result, Counter[str]]:
    """Return what a task leaves that nobody disturbs, and what it asks for; computed once for each script."""
    if script not in _UNDISTURBED:
        place = open_place(folder / "undisturbed", script)
        with place.serve_model(), place.daemon() as proxy:
            place.submit(proxy)
            assert place.wait(proxy, "requires_action", "halted", "failed")["status"] == "requires_action"
            _UNDISTURBED[script] = place.result(), place.asked()
            place.check_leftovers()
    return _UNDISTURBED[script]


def compare(place: TaskPlace, proxy: Process, script: str, kills: int) -> None:
    """Wait for the end of a task, and compare it with an undisturbed one."""
    result, asked = undisturbed(script, place.folder)
    done = place.wait(proxy, "requires_action", "halted", "failed")
    assert done["status"] == "requires_action", done
    assert place.result().commits == result.commits
    assert place.result().base == place.repository.head("main")
    again = place.asked()
    assert set(again) == set(asked)
    assert sum((again - asked).values()) <= kills, "more than the requests under way were sent again"
    place.check_leftovers()


_EVENTS = ("prepared", "baseline", "assembled", "called", "written", "validated", "committed")
_PHASES = [*product(_EVENTS, _SCRIPTS), ("planned", "planned"), ("attempt_ended", "single")]
"""Events after which the daemon is killed."""


def wait_for_event(proxy: Process, kind: str, number: int = 1) -> None:
    """Return when the event is stored for this time."""
    with httpx.stream("GET", f"{proxy.url}{TASKS}/t1/events", timeout=60) as response:
        for line in response.iter_lines():
            number -= line == f"event: {kind}"
            if number == 0:
                return
    raise AssertionError(f"no event {kind}")


@pytest.mark.parametrize(("event", "script"), sample(_PHASES, 4))
def test_d3_killed_in_each_phase(script: str, event: str, tmp_path: Path) -> None:
    """The daemon is killed in the phase that follows the event."""
    place = open_place(tmp_path, script)
    with place.serve_model():
        with place.daemon() as proxy:
            place.submit(proxy)
            wait_for_event(proxy, event)
            kill(proxy)
        with place.daemon() as proxy:
            compare(place, proxy, script, kills=1)


@pytest.mark.parametrize(("seed", "script"), _MOMENTS)
def test_d3_killed_at_random_moments_of_a_task(script: str, seed: int, tmp_path: Path) -> None:
    kill_at_random(open_place(tmp_path, script), script, seed)


@pytest.mark.parametrize(("seed", "script"), _POSTGRESQL_MOMENTS)
def test_d3_killed_at_random_moments_of_a_task_in_postgresql(
    script: str, seed: int, postgres_server: Postgres, tmp_path: Path
) -> None:
    kill_at_random(open_place(tmp_path, script, postgres_server.create_database()), script, seed)


def kill_at_random(place: TaskPlace, script: str, seed: int) -> None:
    """Kill the daemon while it works on a task, and the next one while it starts or continues."""
    chance = random.Random(seed)
    moments = [chance.uniform(0, 2.0), chance.uniform(0, 1.5)]
    print(f"seed {seed}: killed {moments[0]:.3f} s after it was submitted, and {moments[1]:.3f} s after listening")  # noqa: T201
    with place.serve_model():
        with place.daemon() as proxy:
            place.submit(proxy)
            time.sleep(moments[0])
            kill(proxy)
        with place.daemon() as proxy:
            time.sleep(moments[1])
            kill(proxy)
        with place.daemon() as proxy:
            compare(place, proxy, script, kills=2)
