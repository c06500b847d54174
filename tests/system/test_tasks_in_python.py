"""`forge_proxy.Tasks`: every operation on tasks, with a real daemon."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from forge_proxy import DaemonError, NoDaemon, TaskDefinition, TaskInfo, Tasks, TaskSubmission, WaitTimeout
from tests.system.test_tasks import AFTER, GENERATE, TaskPlace, open_place

WRONG: dict[str, Any] = {
    "when": {"operation": "generate"},
    "respond": {"files": [{"path": "cart.py", "content": "x = undefined\n"}]},
}


async def wait_in_thread(tasks: Tasks, task_id: str) -> TaskInfo:
    """Wait for a task as an asynchronous program does."""
    return await asyncio.to_thread(tasks.wait, task_id, timeout=60)


def submission(place: TaskPlace, task_id: str, **fields: Any) -> TaskSubmission:
    definition = TaskDefinition(task_id=task_id, description="Add a total.", target_files=("cart.py",))
    return TaskSubmission(task=definition, repository=str(place.repository.path), **fields)


def test_s_example_a_program_submits_reviews_and_merges_a_task(tmp_path: Path) -> None:
    edit = {"search": "    def total(self) -> int:\n", "replace": "    def total(self) -> float:\n"}
    second = {"respond": {"edits": [{"path": "cart.py", "edits": [edit]}]}}
    with open_place(tmp_path, {**GENERATE, "times": 1}, second) as place, place.daemon() as proxy:
        tasks = Tasks(f"{proxy.url}/v1")
        wanted = submission(place, "total")
        first = tasks.submit(wanted, idempotency_key="k")
        again = tasks.submit(wanted, idempotency_key="k")
        waiting = asyncio.run(wait_in_thread(tasks, "total"))

        assert (first.id, again.id, waiting.status, waiting.output_files) == (
            "total", "total", "requires_action", ["cart.py"],
        )  # fmt: skip
        assert [one.id for one in tasks.list(status="requires_action")] == ["total"]
        (call,) = tasks.calls("total").data
        assert (call.tier, call.outcome) == ("generation", "passed")
        assert "Use type hints." in tasks.context("total", 1).system_prompt
        assert tasks.plan("total").plan is None
        reviewed = tasks.diff("total")
        assert "+    def total(self) -> int:" in reviewed.diff

        tasks.changes("total", "Return a float.")
        changed = tasks.wait("total")  # the wait before it is over
        assert (changed.status, changed.head != reviewed.head) == ("requires_action", True), changed.failures
        with pytest.raises(DaemonError, match="look at the diff again") as conflict:
            tasks.approve("total", head=reviewed.head)
        assert (conflict.value.status, conflict.value.code) == (409, "task_conflict")
        tasks.approve("total", head=changed.head, base=changed.base_commit, method="squash", approver="ada")
        merged = tasks.wait("total")
        events = [event.type for event in tasks.events("total")]  # until the end

        assert (merged.result, merged.approver) == ("merged", "ada")
        assert (place.repository.path / "cart.py").read_text() == AFTER.replace("-> int", "-> float")
        assert events.count("called") == 2
        assert [event.id for event in tasks.events("total", after=merged.last_event - 1)] == [merged.last_event]
        tasks.delete("total")
        with pytest.raises(DaemonError, match="no task 'total'") as unknown:
            tasks.get("total")
        assert unknown.value.status == 404


def test_s_example_a_program_decides_about_tasks_that_do_not_succeed(tmp_path: Path) -> None:
    with open_place(tmp_path, {**WRONG, "times": 3}, GENERATE) as place, place.daemon() as proxy:
        tasks = Tasks(proxy.url)
        tasks.submit(submission(place, "one", max_attempts=1))
        assert tasks.wait("one").failures[0].findings[0].code == "F821"
        tasks.answer("one", "retry", "Define it.")
        assert tasks.wait("one").status == "halted"
        tasks.retry("one")
        assert tasks.wait("one").status == "halted"
        tasks.answer("one", "stop")
        assert (tasks.wait("one").status, tasks.get("one").error) == ("failed", "stopped by a person")

        tasks.submit(submission(place, "two"))
        assert tasks.wait("two").status == "requires_action"
        tasks.reject("two", approver="ada")
        assert tasks.wait("two").result == "rejected"

        tasks.submit(submission(place, "three"))
        tasks.wait("three")
        assert tasks.cancel("three").status == "cancelled"
        assert [(one.id, one.status) for one in tasks.list()] == [
            ("three", "cancelled"), ("two", "completed"), ("one", "failed"),
        ]  # fmt: skip
    with pytest.raises(NoDaemon, match="no daemon responds"):
        tasks.get("one")


def test_s_example_a_program_stops_waiting_and_the_task_continues(tmp_path: Path) -> None:
    with open_place(tmp_path, {**GENERATE, "fault": "silent", "times": 1}, GENERATE) as place, place.daemon() as proxy:
        tasks = Tasks(proxy.url)
        tasks.submit(submission(place, "one"))
        with pytest.raises(WaitTimeout, match=r"one is still (queued|running) after 0\.5 s; it continues") as late:
            tasks.wait("one", timeout=0.5)

        assert isinstance(late.value, TimeoutError)
        assert tasks.get("one").status in ("queued", "running")
