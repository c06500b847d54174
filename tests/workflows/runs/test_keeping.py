"""A run is stored after each step, whatever becomes of the store, and is the same when it is read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tenacity import wait_fixed, wait_none

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.run import RunState, ToolOutcome, begin
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.store.database import open_store
from forge_proxy.store.runs import StoredRuns
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.runs import run_writer, scheduler
from forge_proxy.workflows.runs.errors import NotReadable, RunConflict, StoreUnavailable
from forge_proxy.workflows.runs.execution import ExecutionDeps
from forge_proxy.workflows.runs.local_tools import LocalTools
from forge_proxy.workflows.runs.ports import IdempotencyClaim
from forge_proxy.workflows.runs.records import NewEvent, RunEvent, StoredRun
from forge_proxy.workflows.runs.run_writer import RunWriter
from forge_proxy.workflows.runs.serialization import read_state, write_state
from forge_proxy.workflows.runs.service import Runs
from forge_proxy.workflows.runs.submission import Submission
from forge_proxy.workflows.runs.tool_outputs import ToolOutput
from forge_proxy.workflows.sdk.client_backend import ClientBackend
from tests.fakes.said_client import SaidClient, calls, text

OUTCOMES = {
    "look": ToolOutcome('{"a":[1,null]}', value={"a": [1, None]}),
    "miss": ToolOutcome.soft("nothing"),
    "fail": ToolOutcome.failed("broken"),
    "finish": ToolOutcome("é\x00", value="é\x00"),
}


class Outcomes:
    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        return OUTCOMES.get(call.tool)


async def test_every_state_of_a_run_is_read_as_it_was_written() -> None:
    names = [*OUTCOMES, "elsewhere"]
    tools = {name: ToolDef(ToolSpec.from_json_schema(name, "", {"type": "object"})) for name in names}
    flow = Workflow("w", "", tools, ["look"], "finish", "")
    thinks = [ToolCall.of("look", {"n": 1.5}, reasoning="Hm.")]
    waits = [text("no"), calls("finish"), thinks, calls("look", "miss", "fail"), calls("elsewhere", "look")]
    seen: list[RunState] = []

    for script in (waits, [calls("look"), calls("finish")]):
        states = WorkflowRunner(SaidClient(script)).drive(flow, begin(flow, "Go."), executor=Outcomes())
        seen += [state async for state in states]

    assert [read_state(write_state(state)) for state in seen] == seen
    assert any(state.batch and state.batch.open == (0,) for state in seen)
    assert any(state.retries for state in seen)
    assert seen[-1].ended is not None


@pytest.mark.parametrize("stored", ["", "{}", '{"version":2,"state":{}}', '{"version":1,"state":{"messages":7}}'])
def test_what_another_version_stored_is_said_to_be_that(stored: str) -> None:
    with pytest.raises(NotReadable):
        read_state(stored)


class Failing(StoredRuns):
    """A store that fails as a database does: before a change, or after it, when nobody knows."""

    fails: Sequence[str] = ()
    meanwhile: Callable[[], Awaitable[None]] | None = None
    """What happens just after it was found that there are no more events."""
    saving: Callable[[StoredRun], Awaitable[None]] | None = None
    """What happens while a change is being stored."""
    finds: Callable[[StoredRun], StoredRun] | None = None
    """What a run that was submitted before is found as."""
    saved = 0

    async def create(self, run: StoredRun, events: Sequence[RunEvent], claim: IdempotencyClaim | None) -> StoredRun:
        found = await super().create(run, events, claim)
        return found if self.finds is None else self.finds(found)

    async def events(self, run_id: str, *, after: int, limit: int) -> Sequence[RunEvent]:
        found = await super().events(run_id, after=after, limit=limit)
        if not found and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return found

    async def save(self, run: StoredRun, since: int, events: Sequence[RunEvent]) -> None:
        self.saved += 1
        how = self.fails[self.saved % len(self.fails)] if self.fails else ""
        if self.saving is not None:
            await self.saving(run)
        if how == "before":
            raise StoreUnavailable("a test wants it")
        await super().save(run, since, events)
        if how == "after":
            raise StoreUnavailable("a test wants it")


SUBMISSION = {
    "workflow": {
        "name": "w",
        "tools": {"ask": {"parameters": {}}, "finish": {"parameters": {}, "execute": {"by": "arguments"}}},
        "terminal_tool": "finish",
        "system_prompt_template": "",
    },
    "user_message": "Go.",
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Failing]:
    store = await open_store(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
    store.__class__ = Failing
    assert isinstance(store, Failing)
    yield store
    await store.close()


def runs_over(store: Failing | Callable[[], Awaitable[StoredRuns]]) -> Runs:
    async def opened() -> StoredRuns:
        return store if isinstance(store, Failing) else await store()

    def fail(_: str, error: Exception) -> None:
        raise error

    client = SaidClient([calls("ask"), calls("finish")])
    engine = Engine(ClientBackend(client), MonotonicClock(), lambda _: None)
    return Runs(opened, ExecutionDeps(engine, LocalTools(), fail), 4, lambda: 1.0)


async def until(runs: Runs, run_id: str, status: str) -> StoredRun:
    """The run once it has that status."""
    async with asyncio.timeout(20):
        while (run := await runs.get(run_id)).status != status:
            assert not run.finished, run
            await asyncio.sleep(0.001)
    return run


async def put(runs: Runs, run: StoredRun, output: str) -> None:
    """Post the output of the one open call, again and again until the store takes it."""
    state = read_state(run.state)
    assert state.batch is not None
    said = ToolOutput(tool_call_id=state.batch.calls[0].id, output=output)
    async with asyncio.timeout(20):
        while True:
            try:
                await runs.put_outputs(run.id, [said])
            except StoreUnavailable:
                await asyncio.sleep(0.001)  # it may be refused at once, again and again, while nobody else has a turn
            else:
                return


@pytest.mark.parametrize(
    "fails", [("before", ""), ("after", ""), ("before", "after", ""), ("after", "after", "before", "")]
)
async def test_a_store_that_fails_now_and_then_loses_nothing_and_doubles_nothing(
    store: Failing, fails: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_writer, "_RETRY_WAIT", wait_none())
    monkeypatch.setattr(scheduler, "_RETRY_SECONDS", 0.0)
    runs = runs_over(store)
    store.fails = fails

    run = await runs.submit(Submission.model_validate(SUBMISSION))
    await put(runs, await until(runs, run.id, "requires_action"), "yes")
    done = await until(runs, run.id, "completed")
    events = [event async for event in runs.feed(run.id)]
    await runs.close()

    assert [event.id for event in events] == list(range(1, done.last_event + 1))
    assert sum(event.type == "tool_finished" for event in events) == 2
    assert read_state(done.state).steps.completed == ("ask", "finish")


async def test_who_watches_misses_no_event_that_comes_while_it_is_looked_for(store: Failing) -> None:
    runs = runs_over(store)
    run = await runs.submit(Submission.model_validate(SUBMISSION))
    waiting = await until(runs, run.id, "requires_action")

    async def finish() -> None:
        await put(runs, waiting, "yes")
        await until(runs, run.id, "completed")

    store.meanwhile = finish
    seen = [event.id async for event in runs.feed(run.id)]
    done = await runs.get(run.id)
    await runs.close()

    assert seen == list(range(1, done.last_event + 1))


async def test_who_leaves_while_the_store_is_asked_disturbs_nothing_in_it(store: Failing) -> None:
    """A connection whose user is cancelled is thrown away, with an error in the log."""
    runs, asked, go_on, answered = runs_over(store), asyncio.Event(), asyncio.Event(), asyncio.Event()
    run = await runs.submit(Submission.model_validate(SUBMISSION))
    waiting = await until(runs, run.id, "requires_action")

    async def answer() -> None:
        asked.set()
        await go_on.wait()
        answered.set()

    store.meanwhile = answer
    watching = asyncio.create_task(_next(runs, waiting))
    await asked.wait()
    watching.cancel()
    await asyncio.wait({watching})
    go_on.set()
    async with asyncio.timeout(20):
        await answered.wait()
    await runs.close()

    assert watching.cancelled()


async def test_a_request_does_not_wait_with_a_driver_for_a_store_that_is_away(
    store: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_writer, "_RETRY_WAIT", wait_fixed(0.01))
    runs, store.fails, away = runs_over(store), ("before",), asyncio.Event()

    async def count(_: StoredRun) -> None:
        if store.saved > 2:
            away.set()

    store.saving = count
    run = await runs.submit(Submission.model_validate(SUBMISSION))

    async with asyncio.timeout(20):
        await away.wait()
        with pytest.raises(StoreUnavailable):
            await runs.cancel(run.id)
    store.fails = ()
    await until(runs, run.id, "requires_action")
    cancelled = await runs.cancel(run.id)
    await runs.close()

    assert cancelled.status == "cancelled"


async def test_a_run_that_fails_just_then_is_not_cancelled(store: Failing) -> None:
    runs = runs_over(store)
    run = await runs.submit(Submission.model_validate({**SUBMISSION, "max_iterations": 1}))
    waiting = await until(runs, run.id, "requires_action")
    requests: list[asyncio.Task[StoredRun]] = []

    async def cancel(now: StoredRun) -> None:
        if now.status == "failed":
            requests.append(asyncio.create_task(runs.cancel(run.id)))
            for _ in range(10):
                await store.head(run.id)

    store.saving = cancel
    await put(runs, waiting, "yes")
    failed = await until(runs, run.id, "failed")
    with pytest.raises(RunConflict):
        await requests[0]
    events = [event async for event in runs.feed(run.id)]
    await runs.close()

    assert (failed.cancel_requested, events[-1].data) == (False, '{"status": "failed", "error": "MaxIterationsError"}')


async def test_a_run_that_ends_while_it_is_submitted_again_is_not_begun_again(store: Failing) -> None:
    runs = runs_over(store)
    run = await runs.submit(Submission.model_validate(SUBMISSION), "key")
    await until(runs, run.id, "requires_action")
    cancelled = await runs.cancel(run.id)

    store.finds = lambda run: replace(run, status="queued")  # as it was when it was looked for
    await runs.submit(Submission.model_validate(SUBMISSION), "key")
    seen = [await runs.head(run.id) for _ in range(20)]
    await runs.close()

    assert {head.last_event for head in seen} == {cancelled.last_event}


async def test_a_store_that_fails_while_it_is_opened_is_opened_again(tmp_path: Path) -> None:
    class FailingOnce(StoredRuns):
        async def get(self, run_id: str) -> StoredRun:
            FailingOnce.get = StoredRuns.get
            raise StoreUnavailable("a test wants it")

    async def opened() -> StoredRuns:
        store = await open_store(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
        store.__class__ = FailingOnce
        return store

    submission = Submission.model_validate(SUBMISSION)
    state = write_state(submission.begin(submission.workflow.definition()))
    run = StoredRun("run_0", "queued", "w", None, 1.0, 1.0, 1, submission=submission.model_dump_json(), state=state)
    first = await open_store(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
    await first.create(run, [RunEvent(1, "status", "{}", 1.0)], None)
    await first.close()
    runs = runs_over(opened)
    with pytest.raises(StoreUnavailable):
        await runs.resume()
    await runs.resume()
    found = await until(runs, run.id, "requires_action")
    await runs.close()

    assert found.last_event > run.last_event


async def test_a_run_that_somebody_else_has_changed_is_not_changed_back(store: Failing) -> None:
    runs = runs_over(store)
    run = await runs.submit(Submission.model_validate(SUBMISSION))
    waiting = await until(runs, run.id, "requires_action")
    keeps, number = RunWriter(waiting, store, _nothing, lambda: 1.0), waiting.last_event + 1
    await store.save(replace(waiting, last_event=number + 1), number - 1, [RunEvent(number, "status", "{}", 1.0)])

    with pytest.raises(RunConflict):
        await keeps.write(NewEvent("status", {}), status="failed")
    await runs.close()

    assert keeps.run == waiting


def _nothing(before: StoredRun, after: StoredRun) -> None:
    """Nobody listens."""


async def _next(runs: Runs, run: StoredRun) -> None:
    async for _ in runs.feed(run.id, run.last_event):
        return
