"""Random plans, responses, findings, halts and cancels with a real repository: what tasks leave (D2, D5, D16, D23)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from forge_proxy.tasks.errors import TaskConflict
from forge_proxy.tasks.service import StoredTask
from tests.properties import sample
from tests.tasks.conftest import World, open_world
from tests.tasks.test_fan_out import fan_out, plan_of, sub_task, writes

ENDS = ("requires_action", "halted", "completed", "failed", "cancelled")
ATTEMPTS = 2
SLOTS = 2
"""Fewer than the sub-tasks of many steps."""


def draw_step(number: int, chance: random.Random) -> dict[str, Any]:
    """Return a step, with as many as five sub-tasks."""
    count = chance.choice([0, 0, 2, 5])
    parts = [sub_task(f"s{number}{name}", f"s{number}{name}.py") for name in "abcde"[:count]]
    step = fan_out(*parts) if parts else {**fan_out(), "target_files": [f"s{number}.py"]}
    return {**step, "id": f"s{number}", "description": f"Write step {number}."}


def draw_rules(step: dict[str, Any], chance: random.Random) -> list[dict[str, Any]]:
    """Return what the model responds for a step: some first responses are spoiled, sometimes also the second ones."""
    rules: list[dict[str, Any]] = []
    for part in step["sub_tasks"] or [step]:
        (path,) = part["target_files"]
        spoiled = [{path: "BAD = 1\n"}, {"elsewhere.py": "x = 1\n"}]
        rules += [writes(part["id"], chance.choice(spoiled), times=1) for _ in range(chance.choice([0, 0, 0, 1, 2]))]
        rules.append(writes(part["id"], {path: "x = 1\n"}))
    return rules


async def decide(world: World, done: StoredTask, chance: random.Random) -> StoredTask:
    """Answer to halts until the task ends or is finished; at the third one, end it."""
    turns: tuple[tuple[Literal["retry", "skip", "stop"], ...], ...] = (("retry",), ("retry", "skip"), ("stop",))
    for answers in turns:
        if done.job.status != "halted":
            break
        await world.tasks.answer("total", chance.choice(answers), "")
        done = await world.wait(*ENDS)
    return done


async def cancel_after(world: World, count: int) -> None:
    """Cancel the task once it and its sub-tasks have had this many events. Before, somebody tries to delete it."""
    async for _ in world.tasks.follow_events("total", with_sub_tasks=True):
        if count == 0:
            break
        count -= 1
    try:
        await world.tasks.delete("total")
    except TaskConflict:
        await world.tasks.cancel("total")
    else:
        raise AssertionError("a task was deleted that had not ended")


@pytest.mark.parametrize("seed", sample(range(40), 20))
async def test_d2_a_random_task_leaves_a_commit_of_each_step_or_waits_or_has_ended(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    steps = [draw_step(number, chance) for number in range(chance.randint(1, 3))]
    rules = [rule for step in steps for rule in draw_rules(step, chance)]
    async with open_world(folder, plan_of(*steps), *rules, slots=SLOTS) as world:
        base = world.repository.head("main")
        await world.submit(plan=True, target_files=[], max_attempts=ATTEMPTS)
        if is_cancelled := chance.random() < 0.4:
            await cancel_after(world, chance.randrange(12))
        done = await decide(world, await world.wait(*ENDS), chance)
        await world.wait_until_clean()

        assert (done.job.status == "cancelled") is is_cancelled
        if not is_cancelled:
            assert done.job.status in ("requires_action", "failed")
        assert world.repository.head("main") == base
        branches = world.repository.git("branch", "--list", "--format=%(refname:short)", "forge/*").split()
        assert branches in ([], ["forge/total"])
        arguments = ("log", "--reverse", "--format=%(trailers:key=Forge-Step,valueonly)", "main..forge/total")
        committed = world.repository.git(*arguments).split() if branches else []
        expected = [step["id"] for step in steps if step["id"] in done.state.step_commits]
        assert committed == expected  # each once, in the order of the plan
        if not is_cancelled and not any("times" in rule for rule in rules):  # no response was spoiled
            assert committed == [step["id"] for step in steps]
        assert done.job.status != "requires_action" or [*done.state.step_commits] == committed
        made = Counter(request.step for request in world.model.made("generate"))
        assert not made or max(made.values()) <= 3 * ATTEMPTS  # a person has answered twice at most
        children = await world.tasks.list_sub_tasks("total")
        assert all(child.job.is_finished for child in children)
