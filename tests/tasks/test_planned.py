"""Tasks with a plan: one worktree, one commit for each step (D11, D23–D25)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tasks.conftest import open_world

PLAN: dict[str, Any] = {
    "when": {"operation": "plan"},
    "respond": {
        "explanation": "Two steps.",
        "steps": [
            {"id": "one", "description": "Write a.", "target_files": ["a.py"], "context_files": [],
             "capability_tier": "generation"},
            {"id": "two", "description": "Write b.", "target_files": ["b.py"], "context_files": ["a.py"],
             "capability_tier": "reasoning"},
        ],
    },
}  # fmt: skip


def writes(step: str, path: str, text: str, **rule: Any) -> dict[str, Any]:
    return {"when": {"step": step}, "respond": {"files": [{"path": path, "content": text}]}, **rule}


ONE, TWO = writes("one", "a.py", "a = 1\n"), writes("two", "b.py", "b = 2\n")
FIELDS: dict[str, Any] = {"plan": True, "target_files": ["a.py"]}


async def test_d25_each_step_is_a_commit_on_one_branch_and_sees_the_one_before(folder: Path) -> None:
    async with open_world(folder, PLAN, ONE, TWO) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        log = world.repository.git("log", "--format=%s", "--reverse", "main..forge/total").split("\n")
        assert log == ["Write a.", "Write b."]
        assert [*done.state.step_commits.values()] == list(done.state.progress.commits)
        second = world.model.requests[-1].body["messages"]
        assert "### a.py\n\n```\na = 1\n```" in second[0]["content"]
        assert "1. one: Write a.\n2. two: Write b." in second[0]["content"]
        assert second[1]["content"].split("\n\n")[1] == "two: Write b."
        assert done.state.result is not None
        assert done.state.result.digest == "one: Write a.\ntwo: Write b."


async def test_d10_plans_use_the_reasoning_tier_and_a_step_may_have_its_own(folder: Path) -> None:
    tiers = {"reasoning": {"model": "scripted", "temperature": 0.5}, "generation": {"temperature": 0.1}}
    async with open_world(folder, PLAN, ONE, TWO, tiers=tiers) as world:
        done = await world.run(**FIELDS)

        assert [call.tier.value for call in done.state.calls] == ["reasoning", "generation", "reasoning"]
        made = [request for request in world.model.requests if request.operation in ("plan", "generate")]
        assert [request.body.get("temperature") for request in made] == [0.5, 0.1, 0.5]


async def test_d23_a_failed_step_is_retried_and_the_commits_before_it_stay(folder: Path) -> None:
    spoiled = writes("two", "b.py", "BAD = 1\n", times=1)
    async with open_world(folder, PLAN, ONE, spoiled, TWO) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action"
        assert [(failure.step, failure.attempt) for failure in done.state.failures] == [("two", 1)]
        assert world.repository.git("show", "forge/total:b.py") == "b = 2"
        assert len(world.model.made("plan")) == 1


async def test_d23_a_step_that_exhausts_its_attempts_halts_and_can_be_skipped(folder: Path) -> None:
    spoiled = writes("two", "b.py", "BAD = 1\n")
    async with open_world(folder, PLAN, ONE, spoiled) as world:
        halted = await world.run(**FIELDS)
        await world.tasks.answer("total", "skip", "")
        done = await world.wait("requires_action", "failed")

        assert halted.job.status == "halted"
        assert done.job.status == "requires_action"
        assert done.state.result is not None
        assert done.state.result.output_files == ("a.py",)


async def test_d24_an_invalid_plan_goes_back_to_the_planner_once(folder: Path) -> None:
    wrong = {**PLAN, "times": 1, "respond": {"explanation": "", "steps": [{**PLAN["respond"]["steps"][1]}]}}
    async with open_world(folder, wrong, PLAN, ONE, TWO) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action"
        retry = world.model.made("plan")[1].body["messages"][0]["content"]
        assert "steps[0].context_files: 'a.py': there is no such file" in retry
        assert "steps: no step has the file 'a.py' of the task as a target" in retry


async def test_d24_a_second_invalid_plan_halts(folder: Path) -> None:
    wrong = {**PLAN, "respond": {"explanation": "", "steps": [{**PLAN["respond"]["steps"][1]}]}}
    async with open_world(folder, wrong) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "halted"
        assert len(world.model.made("plan")) == 2


async def test_d8_a_step_writes_only_what_it_declares(folder: Path) -> None:
    outside = writes("one", "b.py", "b = 1\n", times=1)
    async with open_world(folder, PLAN, outside, ONE, TWO) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action"
        assert done.state.failures[0].findings[0].check == "scope"


async def test_a_task_is_retried_from_a_step(folder: Path) -> None:
    async with open_world(folder, PLAN, ONE, {**TWO, "times": 1}, writes("two", "b.py", "b = 3\n")) as world:
        first = await world.run(**FIELDS)
        await world.tasks.retry("total", 1)
        done = await world.wait("requires_action", "halted")

        assert done.job.status == "requires_action", done.state.halt
        assert done.state.progress.commits[0] == first.state.progress.commits[0]
        assert world.repository.git("show", "forge/total:b.py") == "b = 3"
        assert world.repository.git("rev-list", "--count", "main..forge/total") == "2"
