"""Steps with sub-tasks: child jobs, their outputs, conflicts between them, one commit (D5, D16–D18, D26–D28)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jobs.records import JobEvent, StoredJob
from forge_proxy.tasks.errors import TaskConflict
from tests.fakes.task_model import TaskRequest
from tests.tasks.conftest import World, open_world

NAMES = ("a", "b", "c", "d")
ENDED = ("requires_action", "halted", "completed", "failed", "cancelled")
FIELDS: dict[str, Any] = {"plan": True, "target_files": []}


def plan_of(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"when": {"operation": "plan"}, "respond": {"explanation": "Divided.", "steps": [*steps]}}


def sub_task(name: str, *targets: str, **fields: Any) -> dict[str, Any]:
    described = f"Write the part {name}."
    return {"id": name, "description": described, "target_files": [*targets], "context_files": [], **fields}


def fan_out(*sub_tasks: dict[str, Any], shared: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    targets = [path for one in sub_tasks for path in one["target_files"]]
    step = {"id": "parts", "description": "Write the parts.", "target_files": [*targets, *shared]}
    return {**step, "context_files": [], "sub_tasks": [*sub_tasks], **fields}


def writes(step: str, files: dict[str, str], **rule: Any) -> dict[str, Any]:
    contents = [{"path": path, "content": text} for path, text in files.items()]
    return {"when": {"step": step, "operation": "generate"},
            "respond": {"explanation": f"Wrote {step}.", "files": contents}, **rule}  # fmt: skip


def resolves(text: str, path: str = "names.py", **rule: Any) -> dict[str, Any]:
    return {"when": {"operation": "resolve_conflicts"}, "respond": {"files": [{"path": path, "content": text}]}, **rule}


FOUR = [sub_task(name, f"{name}.py") for name in NAMES]
PLAN = plan_of(fan_out(*FOUR))
PARTS = [writes(name, {f"{name}.py": f"{name} = 1\n"}) for name in NAMES]
SHARED = plan_of(fan_out(*FOUR[:2], shared=["names.py"]))
CONFLICT = [writes(name, {f"{name}.py": f"{name} = 1\n", "names.py": f"NAMES = ['{name}']\n"}) for name in "ab"]
BOTH = "NAMES = ['a', 'b']\n"


async def children_of(world: World) -> list[StoredJob]:
    return [task.job for task in await world.tasks.list_sub_tasks("total")]


def is_clean(world: World) -> bool:
    """Whether nothing is left but the branch of the task."""
    branches = world.repository.git("branch", "--list", "--format=%(refname:short)", "forge/*").split()
    return world.worktrees() == [] and branches in ([], ["forge/total"])


async def test_s_fanout_four_sub_tasks_become_one_commit(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        done = await world.run(**FIELDS)
        kinds = [event.type for event in await world.events() if event.type != "status"]

        assert done.job.status == "requires_action", done.state.halt
        assert world.repository.git("rev-list", "--count", "main..forge/total") == "1"
        assert [world.repository.git("show", f"forge/total:{name}.py") for name in NAMES] == [f"{n} = 1" for n in NAMES]
        message = world.repository.git("log", "-1", "--format=%B", "forge/total")
        assert message == (
            "Write the parts.\n\n- a: Wrote a.\n- b: Wrote b.\n- c: Wrote c.\n- d: Wrote d.\n\n"
            "Forge-Task: total\nForge-Step: parts"
        )
        assert [*done.state.step_commits] == ["parts"]
        assert done.state.result is not None
        assert (done.state.result.calls, done.state.result.completion_tokens) == (5, 25)  # with those of the sub-tasks
        assert kinds[kinds.index("planned") + 1 :] == [
            "sub_tasks_started", "gathered", "validated", "committed", "awaiting_merge",
        ]  # fmt: skip
        assert is_clean(world)


async def test_d16_sub_tasks_do_not_commit_and_d26_have_compound_ids(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.run(**FIELDS)
        children = await world.tasks.list_sub_tasks("total")

        assert [child.job.id for child in children] == [f"total.sub.{name}" for name in NAMES]
        assert all(child.job.parent == "total" for child in children)
        assert {child.state.head for child in children} == {world.repository.head("main")}
        kinds = {event.type for child in children for event in await world.events(child.job.id)}
        assert "committed" not in kinds
        assert kinds >= {"prepared", "assembled", "called", "written", "validated", "returned"}


async def test_d18_a_sub_task_returns_its_files_and_a_digest(folder: Path) -> None:
    long = writes("a", {"a.py": "a = 1\n"})
    long["respond"]["explanation"] = "word " * 400
    async with open_world(folder, PLAN, long, *PARTS[1:]) as world:
        await world.run(**FIELDS)
        first, second, *_ = await world.tasks.list_sub_tasks("total")

        assert first.state.result is not None
        assert second.state.result is not None
        assert len(first.state.result.digest) == 500
        assert first.state.result.digest.startswith("word word")
        assert (second.state.result.digest, second.state.result.output_files) == ("Wrote b.", ("b.py",))
        assert (second.state.result.status, second.state.result.branch) == ("completed", None)


async def test_s_fanout_sub_tasks_have_the_sections_of_a_step_and_see_the_plan(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.run(**FIELDS)
        child = (await world.tasks.list_sub_tasks("total"))[1]
        prompts = {one.step: one.body["messages"] for one in world.model.made("generate")}
        system, user = prompts["b"][0]["content"], prompts["b"][1]["content"]

        titles = [line for line in system.splitlines() if line.startswith("## ")]
        assert titles == ["## Project instructions", "## Output requirements", "## Task"]
        assert "From AGENTS.md:\n\nUse type hints." in system
        assert "1. parts: Write the parts.\n\nThe sub-tasks of `parts`, which run at the same time:" in system
        assert "- a: Write the part a. (`a.py`)\n- b: Write the part b. (`b.py`)" in system
        assert "You may write only: `b.py`." in system
        assert user.split("\n\n")[1] == "b: Write the part b."
        assert len(child.state.calls) == 1


async def test_s_fanout_siblings_share_their_prompts_up_to_the_sub_task(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.run(**FIELDS)
        systems = [one.body["messages"][0]["content"] for one in world.model.made("generate")]

        shared = {text[: text.index("This call is for")] for text in systems}
        assert len(systems) == 4
        assert len(shared) == 1


async def test_d28_context_is_read_from_the_worktree_of_the_parent(folder: Path) -> None:
    first = {"id": "first", "description": "Write the base.", "target_files": ["base.py"], "context_files": []}
    parts = [sub_task(name, f"{name}.py", context_files=["base.py"]) for name in "ab"]
    plan = plan_of(first, fan_out(*parts))
    async with open_world(folder, plan, writes("first", {"base.py": "BASE = 7\n"}), *PARTS) as world:
        done = await world.run(**FIELDS)
        children = await world.tasks.list_sub_tasks("total")

        assert done.job.status == "requires_action", done.state.halt
        made = [one.body["messages"][0]["content"] for one in world.model.made("generate") if one.step in ("a", "b")]
        assert all("### base.py\n\n```\nBASE = 7\n```" in system for system in made)
        links = [child.state.parent for child in children]
        assert all(link is not None and link.worktree.task_id == "total" for link in links)
        assert {link.commit for link in links if link is not None} == {done.state.step_commits["first"]}
        assert world.repository.git("log", "--format=%s", "--reverse", "main..forge/total").split("\n") == [
            "Write the base.", "Write the parts.",
        ]  # fmt: skip


async def test_d8_a_sub_task_may_not_write_the_files_of_the_others(folder: Path) -> None:
    outside = writes("a", {"a.py": "a = 1\n", "b.py": "b = 2\n"}, times=1)
    async with open_world(folder, PLAN, outside, *PARTS) as world:
        done = await world.run(**FIELDS)
        first = (await world.tasks.list_sub_tasks("total"))[0]

        assert done.job.status == "requires_action", done.state.halt
        assert [failure.findings[0].check for failure in first.state.failures] == ["scope"]
        assert world.repository.git("show", "forge/total:b.py") == "b = 1"


async def test_s_fanout_each_sub_task_has_its_own_attempts(folder: Path) -> None:
    spoiled = [writes(name, {f"{name}.py": "BAD = 1\n"}, times=1) for name in "ac"]
    async with open_world(folder, PLAN, *spoiled, *PARTS) as world:
        done = await world.run(**FIELDS)
        children = await world.tasks.list_sub_tasks("total")

        assert done.job.status == "requires_action", done.state.halt
        assert [child.state.progress.attempts for child in children] == [2, 1, 2, 1]
        assert done.state.progress.attempts == 2  # the plan and the step


async def test_d9_a_halted_sub_task_halts_its_parent_with_its_report(folder: Path) -> None:
    spoiled = writes("c", {"c.py": "BAD = 1\n"}, times=2)
    async with open_world(folder, PLAN, spoiled, *PARTS) as world:
        halted = await world.run(**FIELDS)
        before = len(world.model.made("generate"))

        assert halted.job.status == "halted"
        assert halted.state.halt == "sub-task c: 2 attempts failed; the last one: lint: 1 findings"
        report = [(failure.step, failure.attempt, failure.reason) for failure in halted.state.failures]
        assert report == [("parts/c", 1, "lint: 1 findings"), ("parts/c", 2, "lint: 1 findings")]
        diffs = await world.tasks.read_documents([failure.diff or "" for failure in halted.state.failures])
        assert all(b"+BAD = 1" in diff for diff in diffs.values())

        await world.tasks.answer("total", "retry", "Do not write BAD.")
        done = await world.wait("requires_action", "failed")
        repeated = world.model.made("generate")[before:]

        assert done.job.status == "requires_action", done.state.halt
        assert [one.step for one in repeated] == ["c"]  # what the others have written is used again
        retry = repeated[0].body["messages"][0]["content"]
        assert "A reviewer writes: Do not write BAD." in retry
        assert "[lint] c.py:1: X1 bad line: BAD = 1" in retry
        assert [child.job.id for child in await world.tasks.list_sub_tasks("total")][-1] == "total.sub.c.2"
        assert is_clean(world)


@pytest.mark.parametrize(("answer", "status"), [("stop", "failed"), ("skip", "failed")])
async def test_d9_a_person_ends_a_step_whose_sub_task_has_halted(folder: Path, answer: Any, status: str) -> None:
    async with open_world(folder, PLAN, writes("c", {"c.py": "BAD = 1\n"}), *PARTS) as world:
        await world.run(**FIELDS)
        await world.tasks.answer("total", answer, "")
        done = await world.wait("failed", "requires_action")

        assert done.job.status == status
        assert is_clean(world)


async def test_s_fanout_identical_content_is_no_conflict(folder: Path) -> None:
    same = [writes(name, {f"{name}.py": f"{name} = 1\n", "names.py": BOTH}) for name in "ab"]
    async with open_world(folder, SHARED, *same) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        assert world.model.made("resolve_conflicts") == []
        assert world.repository.git("show", "forge/total:names.py") == BOTH.strip()


async def test_s_fanout_conflicts_are_resolved_by_the_reasoning_tier(folder: Path) -> None:
    async with open_world(folder, SHARED, *CONFLICT, resolves(BOTH), files={"names.py": "NAMES = []\n"}) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        (request,) = world.model.made("resolve_conflicts")
        system = request.body["messages"][0]["content"]
        assert "### names.py, as written by `the task before this step`\n\n```\nNAMES = []\n```" in system
        assert "### names.py, as written by `a`\n\n```\nNAMES = ['a']\n```" in system
        assert "### names.py, as written by `b`\n\n```\nNAMES = ['b']\n```" in system
        assert "What the sub-tasks have done:\n\n- a: Wrote a.\n- b: Wrote b." in system
        assert "You may write only: `names.py`." in system
        assert [(call.operation, call.tier.value) for call in done.state.calls] == [
            ("plan", "reasoning"), ("resolve_conflicts", "reasoning"),
        ]  # fmt: skip
        assert world.repository.git("show", "forge/total:names.py") == BOTH.strip()
        assert world.repository.git("rev-list", "--count", "main..forge/total") == "1"


async def test_d27_conflicts_halt_the_task_if_that_was_chosen(folder: Path) -> None:
    async with open_world(folder, SHARED, *CONFLICT) as world:
        done = await world.run(**FIELDS, conflicts="fail")

        assert done.job.status == "halted"
        assert done.state.halt == "sub-tasks have written different versions of files: names.py (a, b)"
        assert world.model.made("resolve_conflicts") == []


@pytest.mark.parametrize(
    ("spoiled", "found"),
    [
        (resolves("BAD = 1\n"), "[lint] names.py:1: X1 bad line: BAD = 1"),
        (resolves(BOTH, fault="wrong_path"), "outside the paths that this task may write"),
        (resolves(BOTH, fault="elided"), "it omits code"),
        (resolves(BOTH, fault="empty"), "there is no version of this file"),
    ],
)
async def test_s_fanout_a_failed_resolution_is_repeated_without_the_sub_tasks(
    folder: Path, spoiled: dict[str, Any], found: str
) -> None:
    # The fake checks a response without the constraints of a server.
    async with open_world(folder, SHARED, *CONFLICT, {**spoiled, "times": 1}, resolves(BOTH)) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        assert [one.step for one in world.model.made("generate")].count("a") == 1
        first, second = world.model.made("resolve_conflicts")
        assert found in second.body["messages"][0]["content"]
        assert found not in first.body["messages"][0]["content"]
        assert world.repository.git("show", "forge/total:names.py") == BOTH.strip()


async def test_s_fanout_only_sub_tasks_with_findings_in_the_merged_files_are_repeated(folder: Path) -> None:
    first = writes("b", {"b.py": "b = 1\n"}, times=1)
    async with open_world(folder, PLAN, first, writes("b", {"b.py": "b = 2\n"}), *PARTS) as world:
        world.checks.merged_findings = ["b.py"]
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        assert sorted(str(one.step) for one in world.model.made("generate")) == ["a", "b", "b", "c", "d"]
        assert "only in the merged files" in world.model.requests[-1].body["messages"][0]["content"]
        assert world.repository.git("show", "forge/total:b.py") == "b = 2"
        assert [failure.step for failure in done.state.failures] == ["parts"]


async def test_s_fanout_two_failed_checks_of_the_merged_files_halt(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        world.checks.merged_findings = ["b.py", "b.py"]
        done = await world.run(**FIELDS)

        assert done.job.status == "halted"
        assert done.state.halt.startswith("2 attempts failed; the last one: lint: 1 findings")
        assert [failure.step for failure in done.state.failures] == ["parts", "parts"]
        assert done.state.kept == ()


async def test_d12_sub_tasks_run_only_the_checks_of_single_files(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.run(**FIELDS)

        assert sorted((request.files, request.is_part) for request in world.checks.seen) == [
            (("a.py",), True), (("a.py", "b.py", "c.py", "d.py"), False), (("b.py",), True), (("c.py",), True),
            (("d.py",), True),
        ]  # fmt: skip


async def test_d10_sub_tasks_have_the_tier_of_their_step(folder: Path) -> None:
    plan = plan_of(fan_out(*FOUR[:2], capability_tier="reasoning"))
    async with open_world(folder, plan, *PARTS) as world:
        await world.run(**FIELDS)
        children = await world.tasks.list_sub_tasks("total")

        assert {call.tier.value for child in children for call in child.state.calls} == {"reasoning"}


async def test_d17_nested_sub_tasks_up_to_the_configured_maximum(folder: Path) -> None:
    inner = sub_task("x", sub_tasks=FOUR[:2])
    plan = plan_of(fan_out(inner, FOUR[2], max_fan_out_depth=2))
    async with open_world(folder, plan, *PARTS, max_depth=2) as world:
        done = await world.run(**FIELDS)
        children = await world.tasks.list_sub_tasks("total")

        assert done.job.status == "requires_action", done.state.halt
        assert [(child.job.id, child.job.parent) for child in children] == [
            ("total.sub.x", "total"), ("total.sub.c", "total"),
            ("total.sub.x.sub.a", "total.sub.x"), ("total.sub.x.sub.b", "total.sub.x"),
        ]  # fmt: skip
        assert [world.repository.git("show", f"forge/total:{name}.py") for name in "abc"] == ["a = 1", "b = 1", "c = 1"]
        digest = world.repository.git("log", "-1", "--format=%B", "forge/total").split("\n\n")[1]
        assert digest == "- x: - a: Wrote a. - b: Wrote b.\n- c: Wrote c."
        assert is_clean(world)


async def test_d17_a_plan_that_is_too_deep_goes_back_to_the_planner(folder: Path) -> None:
    deep = {**plan_of(fan_out(sub_task("x", sub_tasks=FOUR[:2]), FOUR[2])), "times": 1}
    async with open_world(folder, deep, PLAN, *PARTS) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        retry = world.model.made("plan")[1].body["messages"][0]["content"]
        assert "steps[0].sub_tasks[0].sub_tasks: sub-tasks may be nested 1 deep here" in retry


@pytest.mark.parametrize(("depth", "is_offered"), [(0, False), (None, True)])
async def test_d17_the_planner_learns_of_sub_tasks_if_there_may_be_any(
    folder: Path, depth: int | None, is_offered: bool
) -> None:
    single = plan_of({**fan_out(sub_task("a", "a.py"), sub_task("b", "b.py")), "sub_tasks": []})
    async with open_world(folder, single, writes("parts", {"a.py": "a = 1\n", "b.py": "b = 1\n"})) as world:
        await world.run(**FIELDS, max_fan_out_depth=depth)

        (request,) = world.model.made("plan")
        assert ("A step may have `sub_tasks`" in request.body["messages"][0]["content"]) is is_offered
        assert ("sub_tasks" in str(request.body)) is is_offered


async def test_d17_a_task_cannot_exceed_the_configured_maximum(folder: Path) -> None:
    async with open_world(folder, PLAN) as world:
        with pytest.raises(InvalidRequest, match=r"max_fan_out_depth: 2; 1 is possible \(tasks.max_fan_out_depth\)"):
            await world.submit(**FIELDS, max_fan_out_depth=2)


@pytest.mark.parametrize("task_id", ["total.sub.a", "total.sub"])
async def test_d26_ids_of_tasks_are_no_ids_of_sub_tasks(folder: Path, task_id: str) -> None:
    async with open_world(folder, PLAN) as world:
        with pytest.raises(InvalidRequest, match="which separates the ids of sub-tasks"):
            await world.submit(**{**FIELDS, "task_id": task_id})


async def test_d26_the_number_of_a_repeated_id_may_be_part_of_another_one(folder: Path) -> None:
    again = {**fan_out(sub_task("a", "e.py"), sub_task("a.2", "f.py")), "id": "more", "description": "Write more."}
    more = [writes("a", {"e.py": "e = 1\n"}), writes("a.2", {"f.py": "f = 1\n"})]
    first = [{**part, "times": 1} for part in PARTS[:2]]
    async with open_world(folder, plan_of(fan_out(*FOUR[:2]), again), *first, *more) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        ids = [child.job.id for child in await world.tasks.list_sub_tasks("total")]
        assert ids == ["total.sub.a", "total.sub.b", "total.sub.a.2", "total.sub.a.2.2"]


async def test_sub_tasks_of_two_steps_may_have_the_same_id(folder: Path) -> None:
    again = {**fan_out(sub_task("a", "e.py"), sub_task("b", "f.py")), "id": "more", "description": "Write more."}
    more = [writes("a", {"e.py": "e = 1\n"}), writes("b", {"f.py": "f = 1\n"})]
    first = [{**part, "times": 1} for part in PARTS[:2]]
    async with open_world(folder, plan_of(fan_out(*FOUR[:2]), again), *first, *more) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        ids = [child.job.id for child in await world.tasks.list_sub_tasks("total")]
        assert ids == ["total.sub.a", "total.sub.b", "total.sub.a.2", "total.sub.b.2"]
        assert [*done.state.step_commits] == ["parts", "more"]


async def test_d5_sub_tasks_see_nothing_of_each_other_and_their_parent_all(folder: Path) -> None:
    reads = sub_task("b", "b.py", context_files=["cart.py"])
    plan = plan_of(fan_out(sub_task("a", "a.py", "cart.py"), reads, shared=["names.py"]))
    first, second = deepcopy(CONFLICT)
    first["respond"]["files"].append({"path": "cart.py", "content": "WRITTEN_BY_A = 1\n"})
    a_is_written = asyncio.Event()

    async def wait(request: TaskRequest) -> None:
        if request.step == "b":
            await a_is_written.wait()

    bad = writes("b", {"b.py": "BAD = 1\n"}, times=1)
    async with open_world(folder, plan, first, bad, second, resolves(BOTH)) as world:
        world.http.after_first_token = wait
        await world.submit(**FIELDS)
        await world.wait_for_event("written", "total.sub.a")
        a_is_written.set()
        done = await world.wait("requires_action", "halted")

        assert done.job.status == "requires_action", done.state.halt
        of_b = [json.dumps(one.body) for one in world.model.made("generate") if one.step == "b"]
        assert ["class Cart" in prompt for prompt in of_b] == [True, True]
        assert ["WRITTEN_BY_A" in prompt or "['a']" in prompt for prompt in of_b] == [False, False]
        (resolving,) = world.model.made("resolve_conflicts")
        assert {f"NAMES = ['{name}']" in json.dumps(resolving.body) for name in "ab"} == {True}


async def test_d5_a_cancelled_task_leaves_no_sub_task_and_no_worktree(folder: Path) -> None:
    silent, asked = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(request: TaskRequest) -> None:
        if request.step in ("c", "d"):
            asked.release()
            await silent.wait()

    async with open_world(folder, PLAN, *PARTS) as world:
        world.http.after_first_token = wait
        await world.submit(**FIELDS)
        async with asyncio.timeout(20):
            await asked.acquire()
            await asked.acquire()
        await world.tasks.cancel("total")
        done = await world.wait("cancelled")
        await world.wait_until_clean()

        assert done.job.status == "cancelled"
        statuses = {job.id[-1]: job.status for job in await children_of(world)}
        assert statuses["c"] == statuses["d"] == "cancelled"
        assert is_clean(world)


async def test_the_list_of_tasks_has_no_sub_tasks(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.run(**FIELDS)

        assert [head.id for head in await world.tasks.list(before=None, limit=10, status=None)] == ["total"]


async def test_a_retry_from_a_step_repeats_its_sub_tasks(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.run(**FIELDS)
        await world.tasks.retry("total", 0)
        done = await world.wait("requires_action", "halted")

        assert done.job.status == "requires_action", done.state.halt
        assert len(world.model.made("generate")) == 8
        assert world.repository.git("rev-list", "--count", "main..forge/total") == "1"


async def test_s_fanout_requested_changes_are_made_without_sub_tasks(folder: Path) -> None:
    more = {"when": {"step": None, "operation": "generate"},
            "respond": {"files": [{"path": "a.py", "content": "a = 3\n"}]}}  # fmt: skip
    async with open_world(folder, PLAN, more, *PARTS) as world:
        await world.run(**FIELDS)
        await world.tasks.request_changes("total", "a is 3.")
        done = await world.wait("requires_action", "halted")

        assert done.job.status == "requires_action", done.state.halt
        assert world.repository.git("show", "forge/total:a.py") == "a = 3"
        assert world.repository.git("log", "-1", "--format=%s", "forge/total") == "Requested changes: a is 3."


async def test_s_fanout_events_of_sub_tasks_follow_the_event_that_has_started_them(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.submit(**FIELDS)
        live = await collect(world, "total")
        replayed = await collect(world, "total")
        started = next(event.id for event in live if event.type == "sub_tasks_started")
        later = await collect(world, "total", after=started)

        own = [event.id for event in live if event.id]
        assert own == [*range(1, len(own) + 1)]
        between = [event for event in live if not event.id]
        tasks = {orjson.loads(event.data)["task"] for event in between}
        assert tasks == {f"total.sub.{name}" for name in NAMES}
        kinds = [event.type for event in live]
        assert kinds.index("sub_tasks_started") < kinds.index("returned") < kinds.index("gathered")
        assert kinds.count("returned") == 4
        assert sorted(event.data for event in replayed) == sorted(event.data for event in live)
        assert [event.id for event in later] == [*range(started + 1, own[-1] + 1)]  # all sub-tasks have ended


async def test_s_fanout_events_of_sub_tasks_that_have_not_ended_are_repeated(folder: Path) -> None:
    going, asked = asyncio.Event(), asyncio.Event()

    async def wait(request: TaskRequest) -> None:
        if request.step == "d":
            asked.set()
            await going.wait()

    async with open_world(folder, PLAN, *PARTS) as world:
        world.http.after_first_token = wait
        await world.submit(**FIELDS)
        async with asyncio.timeout(20):
            await asked.wait()
        async with asyncio.timeout(20):
            while [job.status for job in await children_of(world)].count("completed") < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        latest = (await world.tasks.get("total")).job.last_event
        events = await collect(world, "total", after=latest, on_event=going.set)

        tasks = {orjson.loads(event.data)["task"] for event in events if not event.id}
        assert tasks == {"total.sub.d"}
        assert next(event.type for event in events if event.id and event.type != "status") == "gathered"


async def test_a_sub_task_cannot_be_deleted_or_reviewed_by_itself(folder: Path) -> None:
    async with open_world(folder, PLAN, *PARTS) as world:
        await world.run(**FIELDS)

        with pytest.raises(TaskConflict, match=r"total.sub.a is a sub-task of total and is deleted with it"):
            await world.tasks.delete("total.sub.a")
        with pytest.raises(TaskConflict, match="there is nothing to review"):
            await world.tasks.approve("total.sub.a", head=None, base=None, method="merge", approver="")
        with pytest.raises(InvalidRequest, match=r"after\[0\].*is a sub-task of total, and is never merged"):
            await world.submit(task_id="next", after=["total.sub.a"])


async def test_a_sub_task_that_somebody_cancels_halts_its_parent(folder: Path) -> None:
    never, asked = asyncio.Event(), asyncio.Event()

    async def wait(request: TaskRequest) -> None:
        if request.step == "d" and not asked.is_set():
            asked.set()
            await never.wait()

    async with open_world(folder, PLAN, *PARTS) as world:
        world.http.before = wait
        await world.submit(**FIELDS)
        async with asyncio.timeout(20):
            await asked.wait()
        await world.tasks.cancel("total.sub.d")
        halted = await world.wait("halted", "requires_action")

        assert halted.state.halt == "sub-task d: it was cancelled"
        await world.tasks.answer("total", "retry", "")
        done = await world.wait("requires_action", "failed")
        assert done.job.status == "requires_action", done.state.halt
        await world.wait_until_clean()
        assert is_clean(world)


async def collect(
    world: World, task_id: str, after: int = 0, on_event: Callable[[], None] = lambda: None
) -> list[JobEvent]:
    """Return the events of a task and of its sub-tasks until it waits for its review."""
    found: list[JobEvent] = []
    async with asyncio.timeout(30):
        async for event in world.tasks.follow_events(task_id, after, with_sub_tasks=True):
            found.append(event)
            on_event()
            if event.type == "status" and event.id and orjson.loads(event.data)["status"] == "requires_action":
                break
    return found
