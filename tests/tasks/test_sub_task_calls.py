"""How the calls of sub-tasks share the model server: its slots, and its cache of the prefix of their prompts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.tasks.shared_prefixes import SharedPrefixes
from tests.fakes.task_model import TaskRequest
from tests.tasks.conftest import World, open_world
from tests.tasks.test_fan_out import FIELDS, PARTS, PLAN


async def wait_for_phase(world: World, phase: str, count: int) -> None:
    """Wait until this many sub-tasks are in this phase."""
    while sum(f'"{phase}"' in child.job.action for child in await world.tasks.list_sub_tasks("total")) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_s_fanout_the_first_prompt_is_processed_before_the_others_are_sent(folder: Path) -> None:
    order: list[str] = []
    others = asyncio.Semaphore(0)

    async def before(request: TaskRequest) -> None:
        order.append("request")
        if len(order) == 1:
            await wait_for_phase(world, "call_llm", 4)  # none of the others is sent, although all of them could be
        else:
            others.release()

    async def after_first_token(request: TaskRequest) -> None:
        if order == ["request"]:
            order.append("first token")
            for _ in range(3):  # they do not wait for the end of the first one
                await others.acquire()

    async with open_world(folder, PLAN, *PARTS) as world:
        world.http.before, world.http.after_first_token = before, after_first_token
        done = await world.run(**FIELDS)

    assert done.job.status == "requires_action", done.state.halt
    assert order == ["request", "first token", "request", "request", "request"]


async def test_s_fanout_as_many_calls_run_at_a_time_as_the_model_server_has_slots(folder: Path) -> None:
    running, seen = 0, [0]
    two = asyncio.Event()

    async def before(request: TaskRequest) -> None:
        nonlocal running
        running += 1
        seen.append(running)

    async def after_first_token(request: TaskRequest) -> None:
        nonlocal running
        if running == 2:
            two.set()
        await two.wait()  # both slots are used
        running -= 1

    async with open_world(folder, PLAN, *PARTS, slots=2) as world:
        world.http.before, world.http.after_first_token = before, after_first_token
        done = await world.run(**FIELDS)

    assert done.job.status == "requires_action", done.state.halt
    assert (len(seen) - 1, max(seen)) == (4, 2)


async def test_s_fanout_a_first_call_that_fails_or_is_cancelled_lets_the_others_start() -> None:
    prefixes, cancel = SharedPrefixes(), asyncio.Event()
    may_fail = asyncio.Event()

    async def fail() -> None:
        async with prefixes.wait_for_first("total", asyncio.Event()):
            await may_fail.wait()
            raise ValueError

    async def call(cancel: asyncio.Event) -> str:
        async with prefixes.wait_for_first("total", cancel):
            return "called"

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        failing = asyncio.create_task(fail())
        await asyncio.sleep(0)
        waiting = group.create_task(call(asyncio.Event()))
        cancelled = asyncio.create_task(call(cancel))
        assert await call_of_another_group(prefixes) == "called"
        cancel.set()
        with pytest.raises(Cancelled):
            await cancelled
        assert not waiting.done()
        may_fail.set()
        with pytest.raises(ValueError):  # noqa: PT011
            await failing

    assert waiting.result() == "called"


async def call_of_another_group(prefixes: SharedPrefixes) -> str:
    async with prefixes.wait_for_first("another", asyncio.Event()):
        return "called"
