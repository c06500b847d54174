"""Tasks whose calls are batches of one line (`mode: batch`): real git, real store, real batches, a scripted model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.core.jobs.records import JobHead
from forge_proxy.core.tasks.models import MAX_FAN_OUT_DEPTH
from forge_proxy.core.tasks.operations import OPERATIONS
from forge_proxy.jobs.ports import JobFilter
from tests.fakes.task_model import TaskRequest
from tests.tasks.conftest import SECONDS, World, open_world
from tests.tasks.test_fan_out import BOTH, FOUR, PARTS, SHARED, fan_out, plan_of, resolves, sub_task, writes
from tests.tasks.test_fan_out import FIELDS as DIVIDED
from tests.tasks.test_planned import FIELDS, ONE, PLAN, TWO
from tests.tasks.test_single_step import AFTER, GOOD

STREAMED = ("stream", "stream_options")
JsonDict = dict[str, Any]


def bodies(world: World) -> list[bytes]:
    """Return the bodies that the model server has received, without what requests that the response is streamed."""
    return [
        orjson.dumps({name: value for name, value in one.body.items() if name not in STREAMED})
        for one in world.model.requests
        if one.operation != "other"
    ]


async def batches_of(world: World) -> list[JobHead]:
    """Return the batches of all tasks."""
    return [*await world.jobs.list(JobFilter(kind="batch"), before=None, limit=100)]


async def submitted(world: World) -> list[JsonDict]:
    return [json.loads(event.data) for event in await world.events() if event.type == "submitted"]


@pytest.mark.parametrize("method", ["response_format", "tool", "prompt"])
async def test_s_batch_a_line_has_the_body_of_the_request_byte_for_byte(folder: Path, method: str) -> None:
    tier = {"model": "scripted", "response_form": "json", "method": method, "temperature": 0.5, "thinking": False}
    tiers = {"generation": tier}
    lines: list[bytes] = []

    async def read_line(_: TaskRequest) -> None:
        (batch,) = await batches_of(world)
        file = await world.files.get(batch.title, "")
        lines.append(b"".join([piece async for piece in world.files.read(file)]))

    async with open_world(folder / "sync", GOOD, tiers=tiers) as world:
        await world.run()
        expected = bodies(world)
    async with open_world(folder / "batch", GOOD, tiers=tiers, has_batches=True) as world:
        world.http.before = read_line
        done = await world.run(mode="batch")

        assert done.job.status == "requires_action", done.state.halt
        assert world.repository.git("show", "forge/total:cart.py") == AFTER.strip()
        assert bodies(world) == expected  # what the model server receives is the same, too
        assert [line.partition(b'"body":')[2] for line in lines] == [expected[0] + b"}\n"]


async def test_s_batch_a_planned_task_is_one_batch_for_each_call_and_leaves_none_behind(folder: Path) -> None:
    async with open_world(folder, PLAN, ONE, TWO, has_batches=True) as world:
        done = await world.run(mode="batch", **FIELDS)

        assert done.job.status == "requires_action", done.state.halt
        assert [one["operation"] for one in await submitted(world)] == ["plan", "generate", "generate"]
        assert [call.requests for call in done.state.calls] == [1, 1, 1]
        assert all(call.prompt_tokens and call.model == "scripted" for call in done.state.calls)
        assert await batches_of(world) == []
        assert (await world.files.list("", None, after=None, limit=9, newest_first=True)).files == []


@pytest.mark.parametrize(
    ("fault", "operations"), [("bad_json", ["generate", "correction"]), ("truncated", ["generate", "generate"])]
)
async def test_s_batch_an_unusable_response_is_retried_by_a_second_batch(
    folder: Path, fault: str, operations: list[str]
) -> None:
    async with open_world(folder, {**GOOD, "fault": fault, "times": 1}, GOOD, has_batches=True) as world:
        done = await world.run(mode="batch")

        assert done.job.status == "requires_action", done.state.halt
        asked = [one for one in world.model.requests if one.operation != "other"]
        assert [one.operation for one in asked] == operations
        assert [one["request"] for one in await submitted(world)] == [1, 2]
        assert len({one["batch"] for one in await submitted(world)}) == 2
        (call,) = done.state.calls
        assert (call.requests, done.state.progress.attempts) == (2, 1)
        assert (asked[1].body["max_tokens"] > asked[0].body["max_tokens"]) == (fault == "truncated")


async def test_s_batch_a_call_without_a_usable_response_costs_an_attempt_like_in_sync_mode(folder: Path) -> None:
    async with open_world(folder, {**GOOD, "fault": "bad_json", "times": 2}, GOOD, has_batches=True) as world:
        done = await world.run(mode="batch")

        assert done.job.status == "requires_action", done.state.halt
        assert [failure.reason.partition(":")[0] for failure in done.state.failures] == ["ResponseInvalid"]
        assert [one["attempt"] for one in await submitted(world)] == [1, 1, 2]
        assert [call.outcome for call in await world.tasks.list_calls("total")] == ["invalid", "passed"]


async def test_s_batch_a_request_that_fails_is_repeated_by_further_batches_and_then_halts_the_task(
    folder: Path, no_waits: None
) -> None:
    async with open_world(folder, {**GOOD, "fault": "error_500", "times": 9}, GOOD, has_batches=True) as world:
        halted = await world.run(mode="batch")

        assert (halted.job.status, halted.state.halt) == ("halted", "call_llm: scripted")
        assert len(world.model.made("generate")) == 9  # three batches, each with batches.max_attempts
        assert len({one["batch"] for one in await submitted(world)}) == 3
        (failed,) = await world.tasks.list_calls("total")
        assert failed.outcome == "error"
        await world.tasks.answer("total", "retry", "")
        done = await world.wait("requires_action", "completed", "failed")
        assert len(world.model.made("generate")) == 10
        assert done.state.halt == ""
        assert await batches_of(world) == []


async def until_submitted(world: World, number: int) -> None:
    """Wait until this many batches were submitted, and the last of them has been sent."""
    async with asyncio.timeout(SECONDS):
        async for event in world.tasks.follow_events("total"):
            number -= event.type == "submitted"
            if number == 0:
                return


async def unreachable(_: TaskRequest) -> None:
    raise BackendUnreachable("http://scripted", "connection refused")


async def test_s_batch_a_waiting_task_takes_no_place_in_a_queue_and_halts_if_its_batch_expires(
    folder: Path, no_waits: None
) -> None:
    async with open_world(folder, GOOD, has_batches=True) as world:
        world.http.before = unreachable
        await world.submit(mode="batch")
        await world.wait("waiting")
        assert world.jobs.status().queues["tasks"].running == 0
        for number in (1, 2, 3):  # each time, another batch is submitted
            await until_submitted(world, number)
            world.ahead += 25 * 3600
        halted = await world.wait("halted")

        assert "has expired: the model server has not responded within 24 h" in halted.state.halt
        assert world.repository.head("main") == world.repository.head()


async def test_s_batch_a_cancelled_batch_halts_its_task(folder: Path, no_waits: None) -> None:
    async with open_world(folder, GOOD, has_batches=True) as world:
        world.http.before = unreachable
        await world.submit(mode="batch")
        await world.wait("waiting")
        (batch,) = await batches_of(world)
        await world.jobs.cancel(batch.id)
        halted = await world.wait("halted")

        assert halted.state.halt == "call_llm: the request was cancelled by the operator of forge-proxy"


async def test_s_batch_cancelling_a_task_cancels_its_batch(folder: Path) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def wait(_: TaskRequest) -> None:
        asked.set()
        await may_answer.wait()

    async with open_world(folder, GOOD, has_batches=True) as world:
        world.http.before = wait
        await world.submit(mode="batch")
        await asked.wait()
        await world.tasks.cancel("total")
        may_answer.set()  # a line in flight finishes
        cancelled = await world.wait("cancelled")
        assert cancelled.state.calls == ()
        async with asyncio.timeout(SECONDS):
            while await batches_of(world):  # noqa: ASYNC110 - they are removed in the background
                await asyncio.sleep(0.02)
        assert (await world.files.list("", None, after=None, limit=9, newest_first=True)).files == []


async def test_s_batch_after_a_restart_the_response_is_delivered_without_another_request(folder: Path) -> None:
    asked, is_over = asyncio.Event(), asyncio.Event()

    async def wait(_: TaskRequest) -> None:
        asked.set()
        await is_over.wait()

    async with open_world(folder, GOOD, has_batches=True) as world:
        world.http.before = wait
        await world.submit(mode="batch")
        await asked.wait()
        (before,) = await submitted(world)
    async with open_world(folder, GOOD, has_batches=True) as world:
        await world.jobs.resume()
        done = await world.wait("requires_action", "halted")

        assert done.job.status == "requires_action", done.state.halt
        assert await submitted(world) == [before]
        assert len(world.model.made("generate")) == 1


async def test_s_batch_sub_tasks_inherit_the_mode(folder: Path) -> None:
    parts = [writes(name, {f"{name}.py": f"{name} = 1\n", "names.py": f"NAMES = ['{name}']\n"}) for name in "ab"]
    async with open_world(folder, SHARED, *parts, resolves(BOTH), has_batches=True) as world:
        done = await world.run(mode="batch", **DIVIDED)
        assert done.job.status == "requires_action", done.state.halt
        assert done.state.result is not None
        assert done.state.result.calls == 4
        children = await world.tasks.list_sub_tasks("total")

        assert world.repository.git("show", "forge/total:names.py") == BOTH.strip()
        assert [child.job.id for child in children] == ["total.sub.a", "total.sub.b"]
        operations = [one.operation for one in world.model.requests if one.operation in OPERATIONS]
        assert sorted(operations) == ["generate", "generate", "plan", "resolve_conflicts"]
        assert not any(one.body.get("stream") for one in world.model.requests if one.operation in OPERATIONS)
        assert await batches_of(world) == []


async def test_d17_sub_tasks_are_nested_as_deep_as_possible_in_mode_batch(folder: Path) -> None:
    part = sub_task("y", sub_tasks=FOUR[:2])
    plan = plan_of(fan_out(sub_task("x", sub_tasks=[part, FOUR[2]]), FOUR[3]))
    async with open_world(folder, plan, *PARTS, max_depth=MAX_FAN_OUT_DEPTH, has_batches=True) as world:
        done = await world.run(mode="batch", **DIVIDED)
        children = await world.tasks.list_sub_tasks("total")

        assert done.job.status == "requires_action", done.state.halt
        assert max(child.job.depth for child in children) == MAX_FAN_OUT_DEPTH == 3
        assert [world.repository.git("show", f"forge/total:{name}.py") for name in "abcd"] == [
            f"{name} = 1" for name in "abcd"
        ]
        assert await batches_of(world) == []


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge_proxy.jobs.retries._ATTEMPT_SECONDS", (0.001,))
    monkeypatch.setattr("forge_proxy.batches.shard_handler._WAIT_SECONDS", (0.001,))
