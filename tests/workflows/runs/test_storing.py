"""A run is stored after each step, also by a failing store, and equal when it is read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tenacity import wait_fixed, wait_none

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jobs.actions import NewJob
from forge_proxy.core.jobs.errors import JobConflict
from forge_proxy.core.jobs.records import IdempotencyClaim, JobEvent, NewEvent, StoredJob
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.run import RunState, ToolOutcome, begin_run
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.jobs import retries, writer
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobChange, JobStore, NewRow
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.tools.local import ClientExecutor, EchoExecutor
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.runs.errors import RunConflict, RunNotReadable
from forge_proxy.workflows.runs.execution import ExecutionDeps, RunHandler
from forge_proxy.workflows.runs.records import StoredRun
from forge_proxy.workflows.runs.serialization import read_state, split_text, write_text
from forge_proxy.workflows.runs.service import Runs
from forge_proxy.workflows.runs.submission import Submission
from forge_proxy.workflows.runs.tool_outputs import ToolOutput
from forge_proxy.workflows.sdk.client_backend import ClientBackend
from forge_proxy.workflows.tool_registry import ToolRegistry
from tests.fakes.owned_store import OwnedJobRepository
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


async def test_a_state_is_equal_after_serialization() -> None:
    names = [*OUTCOMES, "elsewhere"]
    tools = {name: ToolDef(ToolSpec.from_json_schema(name, "", {"type": "object"})) for name in names}
    flow = Workflow("w", "", tools, ["look"], "finish", "")
    with_reasoning = [ToolCall.of("look", {"n": 1.5}, reasoning="Hm.")]
    waiting = [
        text("no"),
        calls("finish"),
        with_reasoning,
        calls("look", "miss", "fail"),
        calls("elsewhere", "look"),
    ]
    seen: list[RunState] = []

    for script in (waiting, [calls("look"), calls("finish")]):
        states = WorkflowRunner(SaidClient(script)).drive(flow, begin_run(flow, "Go."), executor=Outcomes())
        seen += [state async for state in states]

    stored = [split_text(write_text('{"a":"}"}', state)) for state in seen]
    assert [submission for submission, _ in stored] == ['{"a":"}"}'] * len(seen)
    assert [read_state(state) for _, state in stored] == seen
    assert any(state.batch and state.batch.open == (0,) for state in seen)
    assert any(state.retries for state in seen)
    assert seen[-1].ended is not None


@pytest.mark.parametrize(
    "stored", ["", "{}", '{"version":1,"state":{}}', '{"version":2,"submission":{},"state":{"messages":7}}']
)
def test_a_state_of_another_version_is_refused(stored: str) -> None:
    with pytest.raises(RunNotReadable):
        read_state(split_text(stored)[1])


class FailingStore(OwnedJobRepository):
    """A store that fails like a database: before a change, or after it, when its outcome is unknown."""

    fails: Sequence[str] = ()
    meanwhile: Callable[[], Awaitable[None]] | None = None
    """Called once, just after a query has found no more events."""
    saving: Callable[[StoredJob], Awaitable[None]] | None = None
    """Called while a change is being stored."""
    finds: Callable[[StoredJob], StoredJob] | None = None
    """Replaces the job that a repeated submission finds."""
    saved = 0

    async def create(self, row: NewRow, claim: IdempotencyClaim | None) -> StoredJob:
        found = await super().create(row, claim)
        return found if self.finds is None else self.finds(found)

    async def events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        found = await super().events(job_id, after=after, limit=limit)
        if not found and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return found

    async def save(self, change: JobChange) -> None:
        self.saved += 1
        how = self.fails[self.saved % len(self.fails)] if self.fails else ""
        if self.saving is not None:
            await self.saving(change.job)
        if how == "before":
            raise StoreUnavailable("simulated")
        await super().save(change)
        if how == "after":
            raise StoreUnavailable("simulated")


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
async def store(tmp_path: Path) -> AsyncGenerator[FailingStore]:
    store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
    store.__class__ = FailingStore
    assert isinstance(store, FailingStore)
    yield store
    await store.close()


def build_runs(store: FailingStore | Callable[[], Awaitable[OwnedJobRepository]]) -> OwnedRuns:
    @asynccontextmanager
    async def open_store() -> AsyncGenerator[JobStore]:
        opened = store if isinstance(store, FailingStore) else await store()
        try:
            yield opened
        finally:
            await opened.close()

    def fail(_: str, error: Exception) -> None:
        raise error

    client = SaidClient([calls("ask"), calls("finish")])
    engine = Engine(EngineConfig(ClientBackend(client), MonotonicClock(), lambda _: None))
    deps = ExecutionDeps(engine, ToolRegistry(ClientExecutor(), EchoExecutor()), fail, lambda _: None, lambda _: None)
    phases, writers = PhaseDeps(JobKinds(RunHandler(deps)), lambda: 1.0, fail), JobWriters(open_store, lambda: 1.0)
    jobs = Jobs(writers, LocalScheduler(writers, phases, {"runs": lambda: 4}), phases)
    return OwnedRuns(jobs, deps, lambda: 1.0)


class OwnedRuns(Runs):
    """Runs with jobs of their own."""

    def build_row(self, new: NewJob) -> NewRow:
        return JobKinds(RunHandler(self._deps)).build_row(new, 1.0)

    async def resume(self) -> None:
        await self._jobs.resume()

    async def close(self) -> None:
        await self._jobs.close()


async def until(runs: Runs, run_id: str, status: str) -> StoredRun:
    """Wait until the run has that status and return it."""
    async with asyncio.timeout(20):
        while (run := await runs.get(run_id)).status != status:
            assert not run.is_finished, run
            await asyncio.sleep(0.001)
    return run


async def post_output(runs: Runs, run: StoredRun, output: str) -> None:
    """Post the output of the one open call until the store accepts it."""
    state = read_state(run.state)
    assert state.batch is not None
    said = ToolOutput(tool_call_id=state.batch.calls[0].id, output=output)
    async with asyncio.timeout(20):
        while True:
            try:
                await runs.post_outputs(run.id, [said])
            except StoreUnavailable:
                await asyncio.sleep(0.001)  # an immediate refusal would otherwise starve the other tasks
            else:
                return


@pytest.mark.long
@pytest.mark.parametrize(
    "fails", [("before", ""), ("after", ""), ("before", "after", ""), ("after", "after", "before", "")]
)
async def test_intermittent_store_failures_neither_lose_nor_duplicate_steps(
    store: FailingStore, fails: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "STORE_RETRY_WAIT", wait_none())
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.0)
    runs = build_runs(store)
    store.fails = fails

    run = await runs.submit(Submission.model_validate(SUBMISSION))
    await post_output(runs, await until(runs, run.id, "requires_action"), "yes")
    done = await until(runs, run.id, "completed")
    events = [event async for event in runs.follow_events(run.id)]
    await runs.close()

    assert [event.id for event in events] == list(range(1, done.last_event + 1))
    assert sum(event.type == "tool_finished" for event in events) == 2
    assert read_state(done.state).steps.completed == ("ask", "finish")


async def test_a_feed_yields_an_event_stored_between_query_and_wait(store: FailingStore) -> None:
    runs = build_runs(store)
    run = await runs.submit(Submission.model_validate(SUBMISSION))
    waiting = await until(runs, run.id, "requires_action")

    async def finish() -> None:
        await post_output(runs, waiting, "yes")
        await until(runs, run.id, "completed")

    store.meanwhile = finish
    seen = [event.id async for event in runs.follow_events(run.id)]
    done = await runs.get(run.id)
    await runs.close()

    assert seen == list(range(1, done.last_event + 1))


async def test_a_client_that_disconnects_during_a_query_does_not_cancel_it(store: FailingStore) -> None:
    """SQLAlchemy discards the connection of a cancelled query and logs an error."""
    runs, asked, go_on, answered = build_runs(store), asyncio.Event(), asyncio.Event(), asyncio.Event()
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


async def test_a_request_fails_while_an_executing_run_waits_for_the_store(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "STORE_RETRY_WAIT", wait_fixed(0.01))
    runs, store.fails, away = build_runs(store), ("before",), asyncio.Event()

    async def count(_: StoredJob) -> None:
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


async def test_cancelling_a_run_that_is_failing_is_a_conflict(store: FailingStore) -> None:
    runs = build_runs(store)
    run = await runs.submit(Submission.model_validate({**SUBMISSION, "max_iterations": 1}))
    waiting = await until(runs, run.id, "requires_action")
    requests: list[asyncio.Task[StoredRun]] = []

    async def cancel(now: StoredJob) -> None:
        if now.status == "failed":
            requests.append(asyncio.create_task(runs.cancel(run.id)))
            for _ in range(10):
                await store.head(run.id)

    store.saving = cancel
    await post_output(runs, waiting, "yes")
    failed = await until(runs, run.id, "failed")
    with pytest.raises(RunConflict):
        await requests[0]
    events = [event async for event in runs.follow_events(run.id)]
    await runs.close()

    assert (failed.cancel_requested, events[-1].data) == (False, '{"status": "failed", "error": "MaxIterationsError"}')


async def test_a_run_that_ends_during_a_repeated_submission_is_not_restarted(store: FailingStore) -> None:
    runs = build_runs(store)
    run = await runs.submit(Submission.model_validate(SUBMISSION), "key")
    await until(runs, run.id, "requires_action")
    cancelled = await runs.cancel(run.id)

    store.finds = lambda run: replace(run, status="queued")  # its status when the query began
    await runs.submit(Submission.model_validate(SUBMISSION), "key")
    seen = [await runs.head(run.id) for _ in range(20)]
    await runs.close()

    assert {head.last_event for head in seen} == {cancelled.last_event}


async def test_a_store_that_fails_during_opening_is_opened_again(tmp_path: Path) -> None:
    class FailingOnce(OwnedJobRepository):
        async def find_next_wake(self, after: float) -> float | None:
            FailingOnce.find_next_wake = OwnedJobRepository.find_next_wake
            raise StoreUnavailable("simulated")

    async def open_store() -> OwnedJobRepository:
        store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
        store.__class__ = FailingOnce
        return store

    submission = Submission.model_validate(SUBMISSION)
    text = write_text(submission.model_dump_json(), submission.begin(submission.workflow.definition()))
    first = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
    runs = build_runs(open_store)
    row = runs.build_row(NewJob("run_0", "run", "w", text))
    await first.create(row, None)
    await first.close()
    with pytest.raises(StoreUnavailable):
        await runs.resume()
    await runs.resume()
    found = await until(runs, "run_0", "requires_action")
    await runs.close()

    assert found.last_event > row.job.last_event


async def test_a_change_by_another_writer_is_not_overwritten(store: FailingStore) -> None:
    runs = build_runs(store)
    run = await runs.submit(Submission.model_validate(SUBMISSION))
    waiting = await until(runs, run.id, "requires_action")
    found, number = await store.get(run.id), waiting.last_event + 1
    late = await JobWriter.open(found, store, _nothing, lambda: 1.0)
    change = JobChange(replace(found, last_event=number + 1), number - 1, [JobEvent(number, "status", "{}", 1.0)])
    await store.save(change)

    with pytest.raises(JobConflict):
        await late.write(NewEvent("status", {}), status="failed")
    await runs.close()

    assert late.job == found


def _nothing(before: StoredJob, after: StoredJob) -> None:
    """Ignore the change."""


async def _next(runs: Runs, run: StoredRun) -> None:
    async for _ in runs.follow_events(run.id, run.last_event):
        return
