"""Runs, for those who submit and watch them: submit, look, answer calls, cancel, delete."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

from forge_proxy.workflows.runs.errors import RunConflict
from forge_proxy.workflows.runs.execution import ExecutionDeps, cancel, changes, told
from forge_proxy.workflows.runs.notifier import RunNotifier
from forge_proxy.workflows.runs.ports import IdempotencyClaim, RunStore, ToolDeclaration, ToolRegistry
from forge_proxy.workflows.runs.records import NewEvent, RunEvent, RunHead, RunStatus, StoredRun
from forge_proxy.workflows.runs.run_writer import numbered
from forge_proxy.workflows.runs.scheduler import RunScheduler
from forge_proxy.workflows.runs.serialization import write_state
from forge_proxy.workflows.runs.submission import Submission
from forge_proxy.workflows.runs.tool_outputs import ToolOutput, apply

_EVENTS_AT_ONCE = 200


class Runs:
    """All runs of a daemon. `open_store` is called once, when it is first needed; `now` tells seconds since 1970.

    Every method raises `StoreUnavailable`, and `RunNotFound` where it is about one run.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[RunStore]],
        means: ExecutionDeps,
        max_running: int,
        now: Callable[[], float],
        moved: Callable[[StoredRun], None] = lambda _: None,
    ) -> None:
        """`moved` hears of each change of status."""
        self._means = means
        self._now = now
        self._moved = moved
        self._bells = RunNotifier()
        self._drivers = RunScheduler(open_store, means, max_running, now, self._changed)

    async def submit(self, submission: Submission, key: str | None = None) -> StoredRun:
        """Store a run, and begin it. With a `key` that was used before, the run that it was used for.

        Raises `InvalidRequest`, `UnknownModel`, or `RunConflict` for a key that was used for something else.
        """
        claim = None if key is None else IdempotencyClaim(key, digest_of(submission))
        self._means.engine.models.served_as(submission.model)
        submission = await declared(submission, self._means.toolbox)
        workflow = submission.workflow.definition()
        state = submission.begin(workflow)
        store = await self._drivers.store()
        now = self._now()
        events = (NewEvent("status", {"status": "queued"}), *told((), state.messages))
        run = StoredRun(
            _new_id(now),
            "queued",
            workflow.name,
            submission.model,
            now,
            now,
            last_event=len(events),
            submission=submission.model_dump_json(),
            state=write_state(state),
        )
        stored = await store.create(run, numbered(events, 0, now), claim)
        if stored.id == run.id:
            self._moved(stored)
        if stored.status == "queued":
            await self._drivers.begin_new(stored.id)
        return stored

    async def get(self, run_id: str) -> StoredRun:
        """A run as it is now."""
        return await (await self._drivers.store()).get(run_id)

    async def head(self, run_id: str) -> RunHead:
        """What is listed of it."""
        return await (await self._drivers.store()).head(run_id)

    async def list(self, *, before: str | None, limit: int, status: RunStatus | None) -> Sequence[RunHead]:
        """Runs, newest first; with `before` only those that are older than that one."""
        return await (await self._drivers.store()).list(before=before, limit=limit, status=status)

    async def put_outputs(self, run_id: str, outputs: Sequence[ToolOutput]) -> StoredRun:
        """Take what came of calls that the caller executes; after the last one the run goes on.

        Raises `InvalidRequest` or `RunConflict`, and then none of them is taken.
        """
        async with self._drivers.changing(run_id) as keeper:
            before = keeper.state
            state, new = apply(before, outputs, waiting=keeper.run.status == "requires_action")
            if not new:
                return keeper.run
            complete = state.batch is not None and not state.batch.open
            events = [*told(before.messages, state.messages), *changes(before, state)]
            if complete:
                events.append(NewEvent("status", {"status": "queued"}))
            await keeper.write(*events, state=state, status="queued" if complete else None)
            if complete:
                self._drivers.begin(keeper)
            return keeper.run

    async def cancel(self, run_id: str) -> StoredRun:
        """Cancel a run: at once, or when the tool has ended that is executed now. Raises `RunConflict` for one that has
        ended otherwise.
        """
        async with self._drivers.changing(run_id) as keeper:
            match keeper.run.status:
                case "requires_action":
                    await cancel(keeper)
                case "queued" | "running":
                    if not keeper.run.cancel_requested:
                        await keeper.write(NewEvent("cancel_requested", {}), cancel=True)
                case "completed" | "failed" as status:
                    raise RunConflict(f"the run {run_id} is {status}: there is nothing to cancel")
                case "cancelled":
                    pass
            return keeper.run

    async def delete(self, run_id: str) -> None:
        """Forget a run that has ended. Raises `RunConflict` for one that has not."""
        store = await self._drivers.store()
        head = await store.head(run_id)
        if not head.finished:
            raise RunConflict(f"the run {run_id} is {head.status}: cancel it first")
        await store.delete(run_id)
        self._drivers.forget(run_id)
        self._bells.ring(run_id)

    async def feed(self, run_id: str, after: int = 0) -> AsyncGenerator[RunEvent]:
        """The events of a run after one, as they happen; ends after the last one, or when the daemon does."""
        store = await self._drivers.store()
        while not self._bells.closed:
            bell = self._bells.of(run_id)
            events = await self._drivers.undisturbed(store.events(run_id, after=after, limit=_EVENTS_AT_ONCE))
            for event in events:
                yield event
                after = event.id
            if events:
                continue
            head = await self._drivers.undisturbed(store.head(run_id))
            if head.last_event > after:  # it came after we had looked
                continue
            if head.finished:
                return
            await bell.wait()

    async def resume(self) -> None:
        """Go on with the runs that an earlier daemon left unfinished."""
        await self._drivers.store()

    def leave(self) -> None:
        """Have those leave who watch: the daemon is about to stop."""
        self._bells.close()

    async def close(self) -> None:
        """Stop where every run is: what is stored can be gone on with."""
        self.leave()
        await self._drivers.close()

    def _changed(self, before: StoredRun, after: StoredRun) -> None:
        if after.status != before.status:
            self._moved(after)
        self._bells.ring(after.id)


def _new_id(now: float) -> str:
    """Ids sort by the time they were made at."""
    return f"run_{round(now * 1000):012x}{secrets.token_hex(6)}"


def is_run_id(text: str) -> bool:
    """Whether a run may have this id, or may have had it."""
    return re.fullmatch("run_[0-9a-f]{24,}", text) is not None


def digest_of(submission: Submission) -> str:
    """Tells whether two submissions are the same."""
    return hashlib.sha256(submission.model_dump_json().encode()).hexdigest()


async def declared(submission: Submission, toolbox: ToolRegistry) -> Submission:
    """A submission with what those who execute its tools know of them: what is stored has to hold after a restart.

    Raises `InvalidRequest` or `ToolUnusable`.
    """
    tools = dict(submission.workflow.tools)
    for name, tool in tools.items():
        wanted = ToolDeclaration(name, tool.execute, tool.description, tool.parameters)
        spec = await toolbox.declare(wanted, f"workflow.tools.{name}")
        parameters = dict(spec.parameters) if isinstance(spec.parameters, Mapping) else {}
        tools[name] = tool.model_copy(update={"description": spec.description, "parameters": parameters})
    workflow = submission.workflow.model_copy(update={"tools": tools})
    return submission.model_copy(update={"workflow": workflow})
