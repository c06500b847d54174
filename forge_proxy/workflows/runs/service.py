"""The operations on runs that the API offers: submit, get, list, post tool outputs, cancel, delete, follow events."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from forge_proxy.workflows.runs.errors import RunConflict
from forge_proxy.workflows.runs.execution import ExecutionDeps, message_events, state_events, store_cancelled
from forge_proxy.workflows.runs.notifier import RunNotifier
from forge_proxy.workflows.runs.ports import IdempotencyClaim, RunStore
from forge_proxy.workflows.runs.records import NewEvent, RunEvent, RunHead, RunStatus, StoredRun
from forge_proxy.workflows.runs.run_writer import number_events
from forge_proxy.workflows.runs.scheduler import RunScheduler
from forge_proxy.workflows.runs.serialization import write_state
from forge_proxy.workflows.runs.submission import Submission
from forge_proxy.workflows.runs.tool_outputs import ToolOutput, apply_outputs
from forge_proxy.workflows.tool_registry import FORMER_CLIENT_KIND, ToolDeclaration, ToolRegistry

_EVENTS_PAGE = 200


class Runs:
    """All runs of a daemon. `open_store` is entered on first use and exited by `close`; `now` returns the seconds
    since 1970.

    Every method raises `StoreUnavailable`; those on one run also raise `RunNotFound`.
    """

    def __init__(
        self,
        open_store: Callable[[], AbstractAsyncContextManager[RunStore]],
        deps: ExecutionDeps,
        max_running: int,
        now: Callable[[], float],
        on_status: Callable[[StoredRun], None] = lambda _: None,
    ) -> None:
        """`on_status` is called after each change of status."""
        self._deps = deps
        self._now = now
        self._on_status = on_status
        self._notifier = RunNotifier()
        self._scheduler = RunScheduler(open_store, deps, max_running, now, self._on_change)

    async def submit(self, submission: Submission, key: str | None = None) -> StoredRun:
        """Store a run and start it. If `key` was used before, return the run that was stored with it.

        Raises `InvalidRequest`, `UnknownModel`, or `RunConflict` if the key was used for a different submission.
        """
        claim = None if key is None else IdempotencyClaim(key, digest_of(submission))
        self._deps.engine.models.resolve_cached(submission.model)  # raises
        submission = await resolve_tools(submission, self._deps.tools)
        workflow = submission.workflow.definition()
        state = submission.begin(workflow)
        store = await self._scheduler.store()
        now = self._now()
        events = (NewEvent("status", {"status": "queued"}), *message_events((), state.messages))
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
        stored = await store.create(run, number_events(events, 0, now), claim)
        if stored.id == run.id:
            self._on_status(stored)
        if stored.status == "queued":
            await self._scheduler.start_if_queued(stored.id)
        return stored

    async def get(self, run_id: str) -> StoredRun:
        """Return the current state of a run."""
        return await (await self._scheduler.store()).get(run_id)

    async def head(self, run_id: str) -> RunHead:
        """Return the list fields of a run."""
        return await (await self._scheduler.store()).head(run_id)

    async def list(self, *, before: str | None, limit: int, status: RunStatus | None) -> Sequence[RunHead]:
        """Return runs, newest first; with `before` only those older than that run."""
        return await (await self._scheduler.store()).list(before=before, limit=limit, status=status)

    async def post_outputs(self, run_id: str, outputs: Sequence[ToolOutput]) -> StoredRun:
        """Store outputs of calls that the client executes; after the last one the run continues.

        Raises `InvalidRequest` or `RunConflict`; then none of the outputs is stored.
        """
        async with self._scheduler.lock_run(run_id) as writer:
            before = writer.state
            state, new = apply_outputs(before, outputs, is_waiting=writer.run.status == "requires_action")
            if not new:
                return writer.run
            complete = state.batch is not None and not state.batch.open
            events = [*message_events(before.messages, state.messages), *state_events(before, state)]
            if complete:
                events.append(NewEvent("status", {"status": "queued"}))
            await writer.write(*events, state=state, status="queued" if complete else None)
            if complete:
                self._scheduler.start(writer)
            return writer.run

    async def cancel(self, run_id: str) -> StoredRun:
        """Cancel a run: immediately, or when the currently running tool ends.

        Raises `RunConflict` if the run has completed or failed.
        """
        async with self._scheduler.lock_run(run_id) as writer:
            match writer.run.status:
                case "requires_action":
                    await store_cancelled(writer)
                case "queued" | "running":
                    if not writer.run.cancel_requested:
                        await writer.write(NewEvent("cancel_requested", {}), cancel=True)
                case "completed" | "failed" as status:
                    raise RunConflict(f"the run {run_id} is {status}: there is nothing to cancel")
                case "cancelled":
                    pass
            return writer.run

    async def delete(self, run_id: str) -> None:
        """Delete a run that has ended. Raises `RunConflict` if it has not."""
        store = await self._scheduler.store()
        head = await store.head(run_id)
        if not head.finished:
            raise RunConflict(f"the run {run_id} is {head.status}: cancel it first")
        await store.delete(run_id)
        self._scheduler.drop_writer(run_id)
        self._notifier.notify(run_id)

    async def follow_events(self, run_id: str, after: int = 0) -> AsyncGenerator[RunEvent]:
        """Yield the events of a run with ids greater than `after` as they happen, until the run or the daemon ends."""
        store = await self._scheduler.store()
        while not self._notifier.closed:
            changed = self._notifier.event_of(run_id)
            events = await self._scheduler.run_shielded(store.events(run_id, after=after, limit=_EVENTS_PAGE))
            for event in events:
                yield event
                after = event.id
            if events:
                continue
            head = await self._scheduler.run_shielded(store.head(run_id))
            if head.last_event > after:  # an event was stored after the query
                continue
            if head.finished:
                return
            await changed.wait()

    async def resume(self) -> None:
        """Resume the runs that an earlier daemon left unfinished."""
        await self._scheduler.store()

    def end_feeds(self) -> None:
        """End all event feeds: the daemon is about to stop."""
        self._notifier.close()

    async def close(self) -> None:
        """Stop every run where it is: the stored state can be resumed."""
        self.end_feeds()
        await self._scheduler.close()

    def _on_change(self, before: StoredRun, after: StoredRun) -> None:
        if after.status != before.status:
            self._on_status(after)
        self._notifier.notify(after.id)


def _new_id(now: float) -> str:
    """Return a new id; ids sort by time of creation."""
    return f"run_{round(now * 1000):012x}{secrets.token_hex(6)}"


def is_run_id(text: str) -> bool:
    """Return whether the text has the format of a run id."""
    return re.fullmatch("run_[0-9a-f]{24,}", text) is not None


def digest_of(submission: Submission) -> str:
    """Return a digest that identifies a submission."""
    text = submission.model_dump_json()
    # Keys that were used before 0.3 stay valid: their digests have the former name.
    text = text.replace('{"by":"client"}', f'{{"by":"{FORMER_CLIENT_KIND}"}}')
    return hashlib.sha256(text.encode()).hexdigest()


async def resolve_tools(submission: Submission, registry: ToolRegistry) -> Submission:
    """Return the submission with its tools' declarations completed by their executors.

    The stored run must be complete for a later restart. Raises `InvalidRequest` or `ToolUnusable`.
    """
    tools = dict(submission.workflow.tools)
    for name, tool in tools.items():
        wanted = ToolDeclaration(name, tool.execute, tool.description, tool.parameters)
        spec = await registry.declare(wanted, f"workflow.tools.{name}")
        parameters = dict(spec.parameters) if isinstance(spec.parameters, Mapping) else {}
        tools[name] = tool.model_copy(update={"description": spec.description, "parameters": parameters})
    workflow = submission.workflow.model_copy(update={"tools": tools})
    return submission.model_copy(update={"workflow": workflow})
