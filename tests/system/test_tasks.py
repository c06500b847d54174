"""Tasks with a real daemon, git and ruff and a scripted model server, from the command line."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.fakes.processes import Process, command, daemon, program, until
from tests.fakes.repository import UserRepository, create_repository

JsonDict = dict[str, Any]
CART = "class Cart:\n    def __init__(self):\n        self.items = []\n"
SEARCH = "        self.items = []\n"
REPLACE = f"{SEARCH}\n    def total(self) -> int:\n        import os\n        return len( self.items )\n"
"""With what ruff fixes: an unused import and two spaces."""
AFTER = f"{CART}\n    def total(self) -> int:\n        return len(self.items)\n"
GENERATE: JsonDict = {
    "when": {"operation": "generate"},
    "respond": {"edits": [{"path": "cart.py", "edits": [{"search": SEARCH, "replace": REPLACE}]}]},
}
PLAN: JsonDict = {
    "when": {"operation": "plan"},
    "respond": {
        "explanation": "First the method, then the page.",
        "steps": [
            {"id": "method", "description": "Add the method.", "target_files": ["cart.py"], "context_files": [],
             "capability_tier": "generation"},
            {"id": "page", "description": "Describe it.", "target_files": ["docs/cart.md"],
             "context_files": ["cart.py"], "capability_tier": "generation"},
        ],
    },
}  # fmt: skip
METHOD = {**GENERATE, "when": {"operation": "generate", "step": "method"}}
PAGE: JsonDict = {
    "when": {"operation": "generate", "step": "page"},
    "respond": {"files": [{"path": "docs/cart.md", "content": "# Cart\n\n`total` counts the items.\n"}]},
}
TASKS = "/admin/v1/tasks"


class TaskPlace:
    """A place where a daemon is started repeatedly, with one repository, one store and one model server."""

    def __init__(self, folder: Path, model: Process, repository: UserRepository) -> None:
        self.folder = folder
        self.model = model
        self.repository = repository
        self.state = folder / "state"

    @contextmanager
    def daemon(self, settings: Mapping[str, str] | None = None) -> Generator[Process]:
        env = {"XDG_STATE_HOME": str(self.state), "FORGE_PROXY_TASKS__REPOSITORIES": str(self.repository.path)}
        with daemon("--backend-url", self.model.url, env={**env, **(settings or {})}) as proxy:
            yield proxy

    def run(self, proxy: Process, *words: str) -> str:
        """Run `forge-proxy tasks`, and return what it prints."""
        env = {"FORGE_PROXY_URL": proxy.url, "XDG_STATE_HOME": str(self.state)}
        done = command("tasks", *words, env=env)
        assert done.code == 0, (done.out, done.err)
        return done.out

    def submit(self, proxy: Process, **fields: Any) -> JsonDict:
        task = {"description": "Add a total.", "target_files": ["cart.py"], "task_id": "total"}
        body = {"task": task, "repository": str(self.repository.path), **fields}
        answer = httpx.post(proxy.url + TASKS, json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, proxy: Process, *statuses: str) -> JsonDict:
        """Wait until the task has one of these statuses."""
        found: list[JsonDict] = []

        def has_status() -> bool:
            found.append(httpx.get(f"{proxy.url}{TASKS}/total", timeout=30).json())
            return found[-1].get("status") in statuses

        until(has_status, f"the task is {' or '.join(statuses)}")
        return found[-1]

    def requests(self, operation: str = "generate") -> list[JsonDict]:
        """Return the requests that the model server has received for an operation."""
        asked = httpx.get(f"{self.model.url}/requests", timeout=30).json()
        return [one for one in asked if one["operation"] == operation]

    def events(self) -> list[str]:
        """Return the types of the stored events."""
        file = self.state / "forge-proxy" / "runs.db"
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=30)) as raw:
            try:
                return [
                    kind for (kind,) in raw.execute("SELECT type FROM job_events WHERE job_id = 'total' ORDER BY id")
                ]
            except sqlite3.OperationalError:  # it has no tables yet
                return []

    def is_clean(self) -> bool:
        """Whether no worktree of a task is left."""
        listed = self.repository.git("worktree", "list", "--porcelain")
        return str(self.state) not in listed


@contextmanager
def open_place(folder: Path, *rules: JsonDict) -> Generator[TaskPlace]:
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump({"responses": list(rules)}))
    files = {"cart.py": CART, "AGENTS.md": "Use type hints.\n"}
    with program("tests.fakes.task_model", str(script)) as model:
        yield TaskPlace(folder, model, create_repository(folder / "shop", files))


def kill(proxy: Process) -> None:
    proxy.send_signal(signal.SIGKILL)
    assert proxy.wait() == -signal.SIGKILL


def test_s_example_a_task_is_run_reviewed_and_merged_from_the_command_line(tmp_path: Path) -> None:
    with open_place(tmp_path, GENERATE) as place, place.daemon() as proxy:
        base = place.repository.head()
        printed = place.run(
            proxy, "run", "Add a total.", "--repo", str(place.repository.path), "-f", "cart.py", "--id", "total"
        )
        assert "forge/total is ready for review: cart.py" in printed
        assert place.repository.head("main") == base  # D7
        assert "+    def total(self) -> int:\n+        return len(self.items)\n" in place.run(proxy, "diff", "total")
        assert "awaiting_merge" in place.run(proxy, "show", "total")
        assert "generate, attempt 1: generation, scripted" in place.run(proxy, "calls", "total")
        assert "Use type hints." in place.run(proxy, "context", "total")
        assert place.run(proxy, "list").startswith("total")
        assert place.run(proxy, "approve", "total", "--as", "ada") == "merged into main\n"
        merged = place.wait(proxy, "completed")

        assert (merged["result"], merged["approver"]) == ("merged", "ada")
        assert (place.repository.path / "cart.py").read_text() == AFTER  # D21: as ruff has fixed it
        assert place.repository.git("branch", "--list", "forge/*") == ""
        assert place.is_clean()
        assert place.run(proxy, "delete", "total") == "deleted total\n"


def test_s_modes_a_planned_task_has_one_commit_for_each_step(tmp_path: Path) -> None:
    with open_place(tmp_path, PLAN, METHOD, PAGE) as place, place.daemon() as proxy:
        place.submit(proxy, plan=True)
        done = place.wait(proxy, "requires_action", "halted", "failed")

        assert done["status"] == "requires_action", done
        assert place.repository.git("log", "--format=%s", "--reverse", "main..forge/total").split("\n") == [
            "Add the method.", "Describe it.",
        ]  # fmt: skip
        assert list(done["commits"]) == ["method", "page"]
        assert "method" in place.run(proxy, "plan", "total")
        assert [request["step"] for request in place.requests()] == ["method", "page"]


def test_d9_a_halted_task_has_a_report_and_a_failing_exit_code(tmp_path: Path) -> None:
    spoiled = {**GENERATE, "respond": {"files": [{"path": "cart.py", "content": "def f():\n    return undefined\n"}]}}
    with open_place(tmp_path, spoiled) as place, place.daemon() as proxy:
        base = place.repository.head()
        words = ("tasks", "run", "Add a total.", "--repo", str(place.repository.path), "-f", "cart.py", "--id", "total")
        done = command(*words, env={"FORGE_PROXY_URL": proxy.url})

        assert done.code == 1
        assert "the task has halted: 2 attempts failed" in done.err
        shown = place.run(proxy, "show", "total")
        assert "[lint] cart.py:2:12: F821" in shown
        assert place.repository.head("main") == base
        assert "F821" in place.requests()[1]["body"]["messages"][0]["content"]


def test_a_repository_that_is_not_allowed_can_be_allowed(tmp_path: Path) -> None:
    with open_place(tmp_path, GENERATE) as place, place.daemon() as proxy:
        other = create_repository(tmp_path / "other", {"cart.py": CART})
        body = {"task": {"description": "d", "target_files": ["cart.py"]}, "repository": str(other.path)}
        refused = httpx.post(proxy.url + TASKS, json=body, timeout=30)
        place.run(proxy, "allow", str(other.path))
        accepted = httpx.post(proxy.url + TASKS, json=body, timeout=30)

        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "repository_unusable")
        assert accepted.status_code == 200


def test_killed_while_it_waits_for_a_review_a_task_can_be_approved(tmp_path: Path) -> None:
    with open_place(tmp_path, GENERATE) as place:
        with place.daemon() as proxy:
            place.submit(proxy)
            waiting = place.wait(proxy, "requires_action")
            kill(proxy)
        with place.daemon() as proxy:
            assert httpx.get(f"{proxy.url}{TASKS}/total", timeout=30).json() == waiting
            place.run(proxy, "approve", "total", "--method", "squash")
            assert place.wait(proxy, "completed")["result"] == "merged"
            assert (place.repository.path / "cart.py").read_text() == AFTER


def test_s_step_tasks_show_for_whom_they_wait_and_begin_after_the_merge(tmp_path: Path) -> None:
    second = {"respond": {"files": [{"path": "item.py", "content": "class Item: ...\n"}]}}
    with open_place(tmp_path, {**GENERATE, "times": 1}, second) as place, place.daemon() as proxy:
        place.run(proxy, "run", "Add a total.", "--repo", str(place.repository.path), "-f", "cart.py", "--id", "total")
        submitted = place.run(
            proxy, "submit", "Add items.", "--repo", str(place.repository.path), "-f", "item.py", "--id", "item",
            "--after", "total",
        )  # fmt: skip
        until(lambda: "waits for" in place.run(proxy, "show", "item"), "the task waits")
        shown = place.run(proxy, "show", "item")
        place.run(proxy, "approve", "total")
        watched = place.run(proxy, "watch", "item")

        assert submitted.strip() == "item"
        assert [line.split() for line in shown.splitlines() if line.startswith("waits")] == [["waits", "for", "total"]]
        assert "forge/item is ready for review: item.py" in watched
        assert place.repository.git("show", "forge/item:cart.py") == AFTER.strip()


def test_leftover_worktrees_are_listed_and_removed_from_the_command_line(tmp_path: Path) -> None:
    wrong = {**GENERATE, "respond": {"files": [{"path": "cart.py", "content": "x = undefined\n"}]}}
    with open_place(tmp_path, wrong) as place:
        with place.daemon() as proxy:
            place.submit(proxy)
            place.wait(proxy, "halted")
            unneeded = place.run(proxy, "gc")  # the halted task needs its worktree
            kept = place.is_clean()
        for file in (place.state / "forge-proxy").glob("runs.db*"):
            file.unlink()  # the database was lost, and with it the task
        with place.daemon() as proxy:
            listed = place.run(proxy, "gc", "--dry-run")
            still_there = not place.is_clean()
            removed = json.loads(place.run(proxy, "gc", "--json"))["data"]
            again = place.run(proxy, "gc", "--dry-run")

        assert (unneeded, kept) == ("", False)
        assert (listed.split()[0], still_there) == ("total", True)
        assert [(one["task_id"], one["branch"]) for one in removed] == [("total", "forge/total")]
        assert (again, place.is_clean()) == ("", True)
        assert place.repository.git("branch", "--list", "forge/total").strip() == "forge/total"


def test_s_fanout_sub_tasks_are_shown_under_their_task(tmp_path: Path) -> None:
    parts = [
        {"id": name, "description": f"Write {name}.", "target_files": [f"{name}.md"], "context_files": []}
        for name in ("north", "south")
    ]
    step = {"id": "parts", "description": "Write both.", "target_files": ["north.md", "south.md"], "context_files": [],
            "sub_tasks": parts}  # fmt: skip
    plan: JsonDict = {"when": {"operation": "plan"}, "respond": {"explanation": "Divided.", "steps": [step]}}
    writes: list[JsonDict] = [
        {"when": {"operation": "generate", "step": name},
         "respond": {"files": [{"path": f"{name}.md", "content": f"{name}\n"}]}}
        for name in ("north", "south")
    ]  # fmt: skip
    with open_place(tmp_path, plan, *writes) as place, place.daemon() as proxy:
        task = {"description": "Write both.", "target_files": [], "task_id": "total"}
        place.submit(proxy, plan=True, task=task)
        done = place.wait(proxy, "requires_action", "halted", "failed")
        assert done["status"] == "requires_action", done["halt"]

        ids = [one["id"] for one in done["sub_tasks"]]
        assert [(one["parent"], one["status"], one["output_files"]) for one in done["sub_tasks"]] == [
            ("total", "completed", ["north.md"]), ("total", "completed", ["south.md"]),
        ]  # fmt: skip
        shown = place.run(proxy, "show", "total")
        calls = place.run(proxy, "calls", "total")
        assert all(name in shown and f"{name} 1" in calls for name in ids)
        assert "  north" in place.run(proxy, "plan", "total")
        assert "Write north." in place.run(proxy, "context", ids[0])
        assert done["calls"] == 3  # with the one of the plan
        watched = place.run(proxy, "watch", "total")
        assert all(name in watched for name in ids)
