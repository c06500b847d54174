"""The operations on runs that the API offers: submit, get, list, post tool outputs, cancel, delete, follow events."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from forge_proxy.core.jobs.actions import NewJob, write_action
from forge_proxy.core.jobs.records import IdempotencyClaim, JobEvent, JobHead, NewEvent
from forge_proxy.core.workflow.run import RunState
from forge_proxy.jobs.ids import new_job_id
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.jobs.service import Jobs
from forge_proxy.workflows.runs.errors import RunNotFound, as_run_errors
from forge_proxy.workflows.runs.execution import (
    AWAIT_CLIENT,
    ExecutionDeps,
    RunHandler,
    message_events,
    state_events,
)
from forge_proxy.workflows.runs.records import RunHead, RunStatus, StoredRun, to_run_head
from forge_proxy.workflows.runs.run_writer import RunWriter
from forge_proxy.workflows.runs.serialization import write_text
from forge_proxy.workflows.runs.submission import Submission
from forge_proxy.workflows.runs.tool_outputs import ToolOutput, apply_outputs
from forge_proxy.workflows.tool_registry import FORMER_CLIENT_KIND, ToolDeclaration, ToolRegistry


class Runs:
    """The runs among a daemon's jobs.

    Every method raises `StoreUnavailable`; those on one run also raise `RunNotFound`.
    """

    def __init__(self, jobs: Jobs, deps: ExecutionDeps, now: Callable[[], float]) -> None:
        self._jobs = jobs
        self._deps = deps
        self._now = now

    async def submit(self, submission: Submission, key: str | None = None) -> StoredRun:
        """Store a run and start it. If `key` was used before, return the run that was stored with it.

        Raises `InvalidRequest`, `UnknownModel`, or `RunConflict` if the key was used for a different submission.
        """
        claim = None if key is None else IdempotencyClaim(f"run:{key}", digest_of(submission))
        self._deps.engine.models.resolve_cached(submission.model)  # raises
        if submission.notify_url is not None:
            self._deps.check_notify_url(submission.notify_url)
        submission = await resolve_tools(submission, self._deps.tools)
        workflow = submission.workflow.definition()
        state = submission.begin(workflow)
        text = write_text(submission.model_dump_json(), state)
        run_id = new_job_id("run", self._now())
        new = NewJob(run_id, RunHandler.kind, workflow.name, text, submission.model, submission.notify_url)
        with as_run_errors(run_id):
            job = await self._jobs.submit(new, message_events((), state.messages), claim=claim)
            return StoredRun.of(job, text if job.id == run_id else await self._jobs.read_state(job))

    async def get(self, run_id: str) -> StoredRun:
        """Return the current state of a run."""
        with as_run_errors(run_id):
            job = await self._jobs.get(run_id)
            check_kind(job)
            return StoredRun.of(job, await self._jobs.read_state(job))

    async def head(self, run_id: str) -> RunHead:
        """Return the list fields of a run."""
        with as_run_errors(run_id):
            job = await self._jobs.head(run_id)
            check_kind(job)
            return to_run_head(job)

    async def list(self, *, before: str | None, limit: int, status: RunStatus | None) -> Sequence[RunHead]:
        """Return runs, newest first; with `before` only those older than that run."""
        which = JobFilter(kind=RunHandler.kind, status=status)
        return [to_run_head(job) for job in await self._jobs.list(which, before=before, limit=limit)]

    async def post_outputs(self, run_id: str, outputs: Sequence[ToolOutput]) -> StoredRun:
        """Store outputs of calls that the client executes; after the last one the run continues.

        Raises `InvalidRequest` or `RunConflict`; then none of the outputs is stored.
        """
        with as_run_errors(run_id):
            async with self._jobs.lock(run_id) as writer:
                check_kind(writer.job)
                run = RunWriter(writer)
                is_waiting = writer.job.status == "requires_action"
                state, new = apply_outputs(run.state, outputs, is_waiting=is_waiting)
                if new:
                    await self._store_outputs(run, state)
                return StoredRun.of(writer.job, writer.state)

    async def _store_outputs(self, run: RunWriter, state: RunState) -> None:
        events = [*message_events(run.state.messages, state.messages), *state_events(run.state, state)]
        text, writer = run.text_of(state), run.job_writer
        if state.batch is None or state.batch.open:
            await writer.write(*events, state=text)
        else:
            event = NewEvent("status", {"status": "queued"})
            await writer.write(*events, event, state=text, status="queued", action=write_action(AWAIT_CLIENT.then))

    async def cancel(self, run_id: str) -> StoredRun:
        """Cancel a run: immediately, or when the currently running tool ends.

        Raises `RunConflict` if the run has completed or failed.
        """
        await self.head(run_id)
        with as_run_errors(run_id):
            job = await self._jobs.cancel(run_id)
            return StoredRun.of(job, await self._jobs.read_state(job))

    async def delete(self, run_id: str) -> None:
        """Delete a run that has ended. Raises `RunConflict` if it has not."""
        await self.head(run_id)
        with as_run_errors(run_id):
            await self._jobs.delete(run_id)

    async def follow_events(self, run_id: str, after: int = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a run with ids greater than `after` as they happen, until the run or the daemon ends."""
        with as_run_errors(run_id):
            async with aclosing(self._jobs.follow_events(run_id, after)) as events:
                async for event in events:
                    yield event


def check_kind(job: JobHead) -> None:
    """Raise `RunNotFound` for a job that is not a run."""
    if job.kind != RunHandler.kind:
        raise RunNotFound(job.id)


def is_run_id(text: str) -> bool:
    """Return whether the text has the format of a run id."""
    return re.fullmatch("run_[0-9a-f]{24,}", text) is not None


def digest_of(submission: Submission) -> str:
    """Return a digest that identifies a submission."""
    without = {"notify_url"} if submission.notify_url is None else None  # which no submission had before 0.3
    text = submission.model_dump_json(exclude=without)
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
