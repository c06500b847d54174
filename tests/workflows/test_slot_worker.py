"""Runs that share one slot: priority decides, a preempted run loses nothing, and no run waits forever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.workflow import Steps, ToolDef, Workflow
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.errors import MaxIterationsError
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.sdk.slot_worker import SlotWorker, WorkerStopped
from tests.fakes.said_client import SaidClient, calls

NONE: dict[str, Json] = {"type": "object", "properties": {}}


class GatedClient(SaidClient):
    """Calls `step`, then `finish`. A response waits for the gate of its workflow, if there is one."""

    def __init__(self) -> None:
        super().__init__([])
        self.gates: dict[str, asyncio.Event] = {}
        self.request_names: list[str] = []
        self.started = asyncio.Event()

    async def send(self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None) -> list[ToolCall]:
        name = str(messages[1]["content"])
        self.request_names.append(name)
        self.started.set()
        if gate := self.gates.get(name):
            await gate.wait()
        stepped = any(message["role"] == "tool" for message in messages)
        return calls("finish" if stepped else "step")


def workflow(done: list[str], name: str) -> Workflow:
    step = ToolDef(ToolSpec.from_json_schema("step", "", NONE), lambda: done.append(name))
    finish = ToolDef(ToolSpec.from_json_schema("finish", "", NONE), lambda: f"{name} is done")
    return Workflow(name, "", {"step": step, "finish": finish}, ["step"], "finish", "Help.")


async def until(condition: Callable[[], bool]) -> None:
    """Yield to the other tasks until the condition is true."""
    while not condition():  # noqa: ASYNC110 - not all of the observed values have an event
        await asyncio.sleep(0)


async def submit(worker: SlotWorker, done: list[str], name: str, priority: int = 0) -> asyncio.Task[str]:
    waiting = worker.waiting
    task = asyncio.create_task(worker.run(workflow(done, name), name, priority=priority))
    await until(lambda: worker.waiting > waiting)
    return task


async def test_the_queued_run_of_highest_priority_is_next() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    async with SlotWorker(WorkflowRunner(client), preempt=False) as worker:
        first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
        await client.started.wait()
        others = [
            await submit(worker, done, name, priority) for name, priority in (("low", 0), ("high", 5), ("also", 5))
        ]
        client.gates["first"].set()
        results = await asyncio.gather(first, *others)

    assert done == ["first", "high", "also", "low"]
    assert results == ["first is done", "low is done", "high is done", "also is done"]


async def test_a_preempted_run_resumes_from_its_last_state() -> None:
    client, done = GatedClient(), list[str]()
    async with SlotWorker(WorkflowRunner(client)) as worker:
        slow = asyncio.create_task(worker.run(workflow(done, "slow"), "slow"))
        await until(lambda: done == ["slow"])
        client.gates["slow"] = asyncio.Event()  # its second response is in progress
        await until(lambda: client.request_names == ["slow", "slow"])
        urgent = await worker.run(workflow(done, "urgent"), "urgent", priority=1)
        client.gates["slow"].set()
        result = await slow

    assert (urgent, result) == ("urgent is done", "slow is done")
    assert done == ["slow", "urgent"]  # its step was not executed again
    assert client.request_names == ["slow", "slow", "urgent", "urgent", "slow"]


async def test_a_run_of_equal_priority_does_not_preempt() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    async with SlotWorker(WorkflowRunner(client)) as worker:
        first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
        await client.started.wait()
        second = await submit(worker, done, "second")
        client.gates["first"].set()
        await asyncio.gather(first, second)

    assert client.request_names == ["first", "first", "second", "second"]


async def test_stopping_cancels_all_runs() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    worker = SlotWorker(WorkflowRunner(client))
    worker.start()
    first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
    await client.started.wait()
    second = await submit(worker, done, "second")

    await worker.stop()

    for task in (first, second):
        with pytest.raises(WorkflowCancelledError) as caught:
            await task
        assert [message.role for message in caught.value.messages] == ["system", "user"]
    with pytest.raises(WorkerStopped):
        await worker.run(workflow(done, "late"), "late")


async def test_cancelling_the_awaiting_task_removes_its_run() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    async with SlotWorker(WorkflowRunner(client)) as worker:
        first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
        await client.started.wait()
        gone = await submit(worker, done, "gone")
        last = await submit(worker, done, "last")
        gone.cancel()
        first.cancel()
        assert await last == "last is done"

    assert done == ["last"]


async def test_an_error_of_a_run_is_raised_only_where_that_run_is_awaited() -> None:
    client = SaidClient([calls("step")])
    async with SlotWorker(WorkflowRunner(client, max_iterations=2)) as worker:
        with pytest.raises(MaxIterationsError):
            await worker.run(workflow([], "endless"), "endless")
        client.script = [calls("step"), calls("finish")]
        client.asked.clear()
        assert await worker.run(workflow([], "next"), "next") == "next is done"


async def test_a_tool_that_cancels_itself_ends_neither_its_run_nor_the_worker() -> None:
    async def step() -> None:
        raise asyncio.CancelledError

    flow = workflow([], "cancelled")
    flow = replace(flow, tools={**flow.tools, "step": replace(flow.tools["step"], callable=step)}, required_steps=())
    async with SlotWorker(WorkflowRunner(GatedClient())) as worker:
        assert await asyncio.wait_for(worker.run(flow, "cancelled"), 5) == "cancelled is done"
        assert await worker.run(workflow([], "next"), "next") == "next is done"


async def test_a_base_exception_of_a_run_is_raised_only_where_that_run_is_awaited() -> None:
    class Panic(BaseException):
        pass

    def step() -> None:
        raise Panic

    flow = workflow([], "broken")
    broken = replace(flow, tools={**flow.tools, "step": replace(flow.tools["step"], callable=step)})
    async with SlotWorker(WorkflowRunner(GatedClient())) as worker:
        with pytest.raises(Panic):
            await asyncio.wait_for(worker.run(broken, "broken"), 5)
        assert await worker.run(workflow([], "next"), "next") == "next is done"


@pytest.mark.parametrize("by_task", [True, False])
async def test_all_runs_are_cancelled_if_the_worker_is_cancelled(by_task: bool) -> None:
    entered, done = asyncio.Event(), list[str]()

    async def step() -> None:
        entered.set()
        await asyncio.Event().wait()

    flow = workflow(done, "endless")
    endless = replace(flow, tools={**flow.tools, "step": replace(flow.tools["step"], callable=step)})
    worker = SlotWorker(WorkflowRunner(GatedClient()))
    worker.start()
    first = asyncio.create_task(worker.run(endless, "endless"))
    await entered.wait()
    second = await submit(worker, done, "second")

    if by_task:
        for task in asyncio.all_tasks() - {first, second, asyncio.current_task()}:
            task.cancel()
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.stop(), 0.01)

    for task in (first, second):
        with pytest.raises(WorkflowCancelledError):
            await asyncio.wait_for(task, 5)
    with pytest.raises(WorkerStopped):
        await worker.run(workflow(done, "late"), "late")


async def test_a_worker_restarted_during_a_stop_accepts_runs_and_the_old_ones_end() -> None:
    client, done = GatedClient(), list[str]()
    client.gates["first"] = asyncio.Event()
    worker = SlotWorker(WorkflowRunner(client))
    worker.start()
    first = asyncio.create_task(worker.run(workflow(done, "first"), "first"))
    await client.started.wait()

    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    worker.start()

    await asyncio.wait_for(stopping, 5)
    with pytest.raises(WorkflowCancelledError):
        await first
    assert await worker.run(workflow(done, "next"), "next") == "next is done"
    await worker.stop()


async def test_on_message_receives_each_run_from_its_first_message_unless_it_is_resumed() -> None:
    said: list[Message] = []
    async with SlotWorker(WorkflowRunner(GatedClient(), on_message=said.append)) as worker:
        await worker.run(workflow([], "first"), "first")
        heard = [message.type.value for message in said]
        last = said[:-2]
        said.clear()
        done = Steps().record("step")
        await worker.run(workflow([], "first"), "", initial_messages=last, steps=done)

    calls_and_results = ["tool_call", "tool_result"]
    assert heard == ["system_prompt", "user_input", *calls_and_results, *calls_and_results]
    assert [message.type.value for message in said] == calls_and_results
