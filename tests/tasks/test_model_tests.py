"""A model is tested when a task first needs it, however long that takes, and whether or not its server is available."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.core.jobs.records import JobEvent
from forge_proxy.tasks.model_cards import ModelCards, ModelUntested
from tests.tasks.conftest import World, open_world
from tests.tasks.test_fan_out import FIELDS, PARTS, PLAN
from tests.tasks.test_single_step import GOOD

AUTO: dict[str, Any] = {"generation": {"response_form": "auto"}}


def requests_of_tests(world: World) -> int:
    return len(world.model.made("other"))


async def until_it_waits(world: World) -> AsyncGenerator[JobEvent]:
    async for event in world.tasks.follow_events("total"):
        yield event
        if event.type in ("waiting", "halted"):
            return


async def test_s_answer_a_model_is_tested_in_a_phase_without_a_time_limit_of_its_own(folder: Path) -> None:
    actions: set[str] = set()

    async def before_test() -> None:
        actions.add((await world.tasks.get("total")).job.action)

    async with open_world(folder, GOOD, tiers=AUTO) as world:
        world.http.before_test = before_test
        done = await world.run()

    assert done.job.status == "requires_action", done.state.halt
    (action,) = actions
    assert '"test_model"' in action
    assert '"timeout":null' in action.replace(" ", "")


async def test_s_answer_a_task_waits_for_a_model_server_that_is_down_before_its_prompt_is_made(folder: Path) -> None:
    async with open_world(folder, GOOD, tiers=AUTO) as world:
        world.http.is_down = True
        await world.submit()
        seen = [event async for event in until_it_waits(world)]
        assert '"BackendUnreachable"' in seen[-1].data
        world.http.is_down = False
        done = await world.wait("requires_action", "halted")

    assert done.job.status == "requires_action", done.state.halt


async def test_s_answer_a_model_that_another_daemon_has_tested_is_not_tested_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find(_: ModelCards, model: str | None) -> None:
        raise ModelUntested  # the daemon that assembles the prompt has no card

    monkeypatch.setattr(ModelCards, "find", find)
    async with open_world(folder, GOOD, tiers=AUTO) as world:
        done = await world.run()

    assert done.job.status == "requires_action", done.state.halt


async def test_s_answer_sub_tasks_test_their_model_once(folder: Path) -> None:
    (folder / "one").mkdir()
    (folder / "four").mkdir()
    async with open_world(folder / "one", GOOD, tiers=AUTO) as world:
        await world.run()
        once = requests_of_tests(world)
    async with open_world(folder / "four", PLAN, *PARTS, tiers=AUTO) as world:
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        assert requests_of_tests(world) == once > 0
