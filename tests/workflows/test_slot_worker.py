"""Runs that share one slot: the most urgent goes first, the others lose nothing, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.errors import MaxIterationsError
from forge_proxy.workflows.client import ChunkType, StreamChunk
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.slot_worker import SlotWorker, WorkerStopped
from tests.fakes.said_client import SaidClient, calls

NONE: dict[str, Json] = {"type": "object", "properties": {}}


class GatedClient(SaidClient):
    """Answers `step`, then `finish`. An answer waits for the gate of its workflow, where it has one."""

    def __init__(self) -> None:
        super().__init__([])
        self.gates: dict[str, asyncio.Event] = {}
        self.asked_for: list[str] = []
        self.begun = asyncio.Event()

    async def send_stream(
        self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        name = str(messages[1]["content"])
        self.asked_for.append(name)
        self.begun.set()
        if gate := self.gates.get(name):
            await gate.wait()
        stepped = any(message["role"] == "tool" for message in messages)
        said: list[ToolCall] = calls("finish" if stepped else "step")
        yield StreamChunk(ChunkType.FINAL, response=said)


def workflow(done: list[str], name: str) -> Workflow:
    step = ToolDef(ToolSpec.from_json_schema("step", "", NONE), lambda: done.append(name))
    finish = ToolDef(ToolSpec.from_json_schema("finish", "", NONE), lambda: f"{name} is done")
    return Workflow(name, "", {"step": step, "finish": finish}, ["step"], "finish", "Help.")


async def until(holds: Callable[[], bool]) -> None:
    """Let the others go on until this holds."""
    while not holds():  # noqa: ASYNC110 - it is about several things, and few of them tell
        await asyncio.sleep(0)


async def submitted(worker: SlotWorker, done: list[str], name: str, priority: int = 0) -> asyncio.Task[str]:
    waiting = worker.waiting
    task = asyncio.create_task(worker.run(workflow(done, name), name, priority=priority))
    await until(lambda: worker.waiting > waiting)
    return task


async def test_the_most_urgent_of_those_who_wait_is_next() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    async with SlotWorker(WorkflowRunner(client), preempt=False) as worker:
        first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
        await client.begun.wait()
        others = [
            await submitted(worker, done, name, priority) for name, priority in (("low", 0), ("high", 5), ("also", 5))
        ]
        client.gates["first"].set()
        results = await asyncio.gather(first, *others)

    assert done == ["first", "high", "also", "low"]
    assert results == ["first is done", "low is done", "high is done", "also is done"]


async def test_a_run_gives_way_and_goes_on_where_it_was() -> None:
    client, done = GatedClient(), list[str]()
    async with SlotWorker(WorkflowRunner(client)) as worker:
        slow = asyncio.create_task(worker.run(workflow(done, "slow"), "slow"))
        await until(lambda: done == ["slow"])
        client.gates["slow"] = asyncio.Event()  # its second answer is being written
        await until(lambda: client.asked_for == ["slow", "slow"])
        urgent = await worker.run(workflow(done, "urgent"), "urgent", priority=1)
        client.gates["slow"].set()
        result = await slow

    assert (urgent, result) == ("urgent is done", "slow is done")
    assert done == ["slow", "urgent"]  # its step was not done again
    assert client.asked_for == ["slow", "slow", "urgent", "urgent", "slow"]


async def test_one_of_the_same_priority_does_not_interrupt() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    async with SlotWorker(WorkflowRunner(client)) as worker:
        first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
        await client.begun.wait()
        second = await submitted(worker, done, "second")
        client.gates["first"].set()
        await asyncio.gather(first, second)

    assert client.asked_for == ["first", "first", "second", "second"]


async def test_nobody_is_left_waiting_when_it_stops() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    worker = SlotWorker(WorkflowRunner(client))
    worker.start()
    first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
    await client.begun.wait()
    second = await submitted(worker, done, "second")

    await worker.stop()

    for task in (first, second):
        with pytest.raises(WorkflowCancelledError) as caught:
            await task
        assert [message.role for message in caught.value.messages] == ["system", "user"]
    with pytest.raises(WorkerStopped):
        await worker.run(workflow(done, "late"), "late")


async def test_who_leaves_makes_room() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    async with SlotWorker(WorkflowRunner(client)) as worker:
        first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
        await client.begun.wait()
        gone = await submitted(worker, done, "gone")
        last = await submitted(worker, done, "last")
        gone.cancel()
        first.cancel()
        assert await last == "last is done"

    assert done == ["last"]


async def test_a_run_that_fails_fails_for_its_caller_only() -> None:
    client = SaidClient([calls("step")])
    async with SlotWorker(WorkflowRunner(client, max_iterations=2)) as worker:
        with pytest.raises(MaxIterationsError):
            await worker.run(workflow([], "endless"), "endless")
        client.script = [calls("step"), calls("finish")]
        client.asked.clear()
        assert await worker.run(workflow([], "next"), "next") == "next is done"
