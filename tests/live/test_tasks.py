"""Tasks with a real llama.cpp, whose model cannot do them: its responses validate, and the task halts with a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.fakes.processes import daemon, until
from tests.fakes.repository import create_repository

_SETTINGS = {
    "FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1",
    "FORGE_PROXY_TIERS__GENERATION__MAX_OUTPUT": "400",
    "FORGE_PROXY_TIERS__GENERATION__TEMPERATURE": "0",
}
_TASK = {"task_id": "t1", "description": "Add 1.", "target_files": ["a.py"]}


def test_s_models_every_structured_call_validates_and_the_task_halts_with_its_report(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "repo", {"a.py": "x = 1\n"})
    base = repository.head("main")
    env = {**_SETTINGS, "XDG_STATE_HOME": str(tmp_path), "FORGE_PROXY_TASKS__REPOSITORIES": str(repository.path)}
    with daemon("--backend", "embedded", env=env) as process, httpx.Client(base_url=process.url, timeout=60) as client:

        def show() -> dict[str, Any]:
            return client.get("/admin/v1/tasks/t1").raise_for_status().json()

        body = {"repository": str(repository.path), "task": _TASK}
        client.post("/admin/v1/tasks", json=body).raise_for_status()
        until(lambda: show()["status"] not in ("queued", "running", "waiting"), "the task halts")
        task, calls = show(), client.get("/admin/v1/tasks/t1/calls").json()["data"]

    assert task["status"] == "halted"
    assert task["halt"].startswith("2 attempts failed; the last one: ")
    assert [failure["attempt"] for failure in task["failures"]] == [1, 2]
    assert {call["form"] for call in calls} == {"json"}
    # A response of 400 tokens, and of 800 once it is repeated, may be cut off; whatever is complete fits its schema.
    assert {call["outcome"] for call in calls} <= {"truncated", "rejected", "edits_failed", "failed"}
    assert calls[1]["cached_tokens"] > 0
    assert repository.head("main") == base
