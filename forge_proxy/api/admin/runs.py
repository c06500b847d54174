"""`/admin/v1/runs`: workflows that are submitted as JSON and run by the daemon."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forge_proxy.api.admin.event_position import AFTER, LAST_EVENT_ID, read_position
from forge_proxy.api.admin.former_names import FormerName
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.workflows.runs.execution import open_calls
from forge_proxy.workflows.runs.message_json import CallJson
from forge_proxy.workflows.runs.records import RunHead, RunStatus, StoredRun
from forge_proxy.workflows.runs.serialization import RunError, RunResult, messages_to_json, read_outcome, read_state
from forge_proxy.workflows.runs.service import Runs, is_run_id
from forge_proxy.workflows.runs.submission import CompletedStep, Submission, read_submission
from forge_proxy.workflows.runs.tool_outputs import ToolOutput
from forge_proxy.workflows.tool_registry import FORMER_CLIENT_KIND


class RunSummary(BaseModel):
    """A run in a list."""

    id: str
    status: RunStatus
    workflow: str = Field(description="The workflow's name.")
    model: str | None
    created_at: float = Field(description="Seconds since 1970.")
    updated_at: float = Field(description="The time of its last change, in seconds since 1970.")
    last_event: int = Field(description="The id of its latest event.")
    cancel_requested: bool = Field(description="Whether it is cancelled once the running tool ends.")


class RunInfo(RunSummary):
    """The current state of a run."""

    iteration: int = Field(
        description="The number of processed model responses, of all kinds. A response counts once its calls have"
        " been executed."
    )
    completed_steps: list[str] = Field(description="The tools that have succeeded.")
    steps: list[CompletedStep] = Field(
        description="The calls that have succeeded, in the form of a submission that continues with the messages."
    )
    pending_steps: list[str] = Field(description="The required tools that have not succeeded yet.")
    required_action: list[CallJson] = Field(description="The calls whose outputs the run waits for.")
    result: RunResult | None = Field(description="The result, once it is completed.")
    error: RunError | None = Field(description="The reason, if it failed.")
    messages: list[dict[str, Any]] = Field(
        description="The current conversation: each call has its result or is in required_action. Usable as"
        " initial_messages."
    )
    metadata: dict[str, Any] = Field(description="The metadata of the submission.")


class RunPage(BaseModel):
    """Some of the runs, newest first."""

    data: list[RunSummary]
    next: str | None = Field(description="The value of `before` for the next page; null on the last one.")


class ToolOutputs(BaseModel):
    """The outputs of calls that the client executes."""

    model_config = ConfigDict(extra="forbid")

    outputs: list[ToolOutput] = Field(min_length=1, max_length=1000, description="The outputs of some or all calls.")


class RunDeleted(BaseModel):
    """A deleted run."""

    id: str
    deleted: Literal[True] = True


RunIdInPath = Annotated[str, Path(description="The id of the run.")]


class RunEndpoints:
    """The endpoints of `/runs`."""

    def __init__(self, runs: Runs, keepalive_seconds: float) -> None:
        self._runs = runs
        self._keepalive_seconds = keepalive_seconds
        self._warn_of_caller = FormerName('execute.by "caller"', '"client"')

    async def submit(
        self,
        submission: Submission,
        idempotency_key: Annotated[
            str | None,
            Header(
                min_length=1,
                max_length=200,
                pattern="^[ -~]*$",
                description="Submitting the same again with the same key returns the existing run.",
            ),
        ] = None,
    ) -> RunInfo:
        """Submit a run. It is stored before the response, and continues even if the client disconnects or the daemon
        restarts.
        """
        if any(execute.get("by") == FORMER_CLIENT_KIND for execute in submission.executes.values()):
            self._warn_of_caller()
        return to_run_info(await self._runs.submit(submission, idempotency_key))

    async def list(
        self,
        limit: Annotated[int, Query(ge=1, le=200, description="The largest number of runs.")] = 20,
        before: Annotated[
            str | None, Query(max_length=100, description="The id of a run; only older ones are listed.")
        ] = None,
        status: Annotated[RunStatus | None, Query(description="Only runs in this state.")] = None,
    ) -> RunPage:
        """List the runs, newest first."""
        if before is not None and not is_run_id(before):
            raise InvalidRequest("before", "expected the id of a run, such as `next` of the page before")
        found = await self._runs.list(before=before, limit=limit + 1, status=status)
        more = found[limit - 1].id if found[limit:] else None
        return RunPage(data=[_to_summary(head) for head in found[:limit]], next=more)

    async def read(self, run_id: RunIdInPath) -> RunInfo:
        """Show a run, with the messages that the model receives."""
        return to_run_info(await self._runs.get(run_id))

    async def events(
        self,
        request: Request,
        run_id: RunIdInPath,
        after: AFTER = 0,
        last_event_id: LAST_EVENT_ID = None,
    ) -> Response:
        """Stream the events of a run as server-sent events with ids: first all past ones, then each new one. The stream
        ends with the run. A client that was disconnected continues after the last id that it received.
        """
        after = read_position(after, last_event_id)
        from forge_proxy.api.event_stream import event_stream  # imports sse_starlette: slow, and rarely needed

        await self._runs.head(run_id)
        return event_stream(request, self._runs.follow_events(run_id, after), self._keepalive_seconds)

    async def put_outputs(self, run_id: RunIdInPath, submitted: ToolOutputs) -> RunInfo:
        """Submit the outputs of calls. After the last one the run continues. The same output may be submitted twice."""
        return to_run_info(await self._runs.post_outputs(run_id, submitted.outputs))

    async def cancel(self, run_id: RunIdInPath) -> RunInfo:
        """Cancel a run: stop the model at once, and wait for a running tool."""
        return to_run_info(await self._runs.cancel(run_id))

    async def delete(self, run_id: RunIdInPath) -> RunDeleted:
        """Delete a run that has ended, and its events."""
        await self._runs.delete(run_id)
        return RunDeleted(id=run_id)


def to_run_info(run: StoredRun) -> RunInfo:
    """Return the API's representation of a run."""
    state, submission = read_state(run.state), read_submission(run.submission)
    outcome = read_outcome(run.outcome) if run.outcome is not None else None
    waits = run.status == "requires_action"
    return RunInfo(
        **_to_summary(run).model_dump(),
        iteration=state.iteration,
        completed_steps=list(state.steps.completed),
        steps=[CompletedStep(tool=done.tool, arguments=dict(done.args)) for done in state.steps.done],
        pending_steps=list(state.steps.pending(submission.workflow.required_steps)),
        required_action=[CallJson.model_validate(call) for call in open_calls(state)] if waits else [],
        result=outcome if isinstance(outcome, RunResult) else None,
        error=outcome if isinstance(outcome, RunError) else None,
        messages=[dict(message) for message in messages_to_json(state)],
        metadata=submission.metadata,
    )


def _to_summary(run: RunHead) -> RunSummary:
    return RunSummary(
        id=run.id,
        status=run.status,
        workflow=run.workflow,
        model=run.model,
        created_at=run.created_at,
        updated_at=run.updated_at,
        last_event=run.last_event,
        cancel_requested=run.cancel_requested,
    )
