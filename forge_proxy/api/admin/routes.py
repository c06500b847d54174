"""The routes of the admin API and the descriptions of their error responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import Depends, FastAPI, Request, Response, params

from forge_proxy.api.admin.backend import BackendEndpoints
from forge_proxy.api.admin.budget import BudgetEndpoints
from forge_proxy.api.admin.clients import ClientEndpoints
from forge_proxy.api.admin.compaction import CompactionEndpoints
from forge_proxy.api.admin.events import EventEndpoints
from forge_proxy.api.admin.former_names import FormerName
from forge_proxy.api.admin.guardrails import GuardrailEndpoints
from forge_proxy.api.admin.heuristics import HeuristicEndpoints
from forge_proxy.api.admin.jobs import JobEndpoints
from forge_proxy.api.admin.ledger import LedgerEndpoints
from forge_proxy.api.admin.live_requests import LiveRequestEndpoints
from forge_proxy.api.admin.request_replay import ReplayEndpoints
from forge_proxy.api.admin.requests import RequestEndpoints
from forge_proxy.api.admin.retries import RetryEndpoints
from forge_proxy.api.admin.runs import RunEndpoints
from forge_proxy.api.admin.sampling import SamplingEndpoints
from forge_proxy.api.admin.services import AdminServices, RequestSource
from forge_proxy.api.admin.settings import SettingsEndpoints
from forge_proxy.api.admin.status import StatusEndpoints
from forge_proxy.api.admin.strict import StrictRoute
from forge_proxy.api.admin.tasks import TaskEndpoints
from forge_proxy.api.admin.text_responses import TextResponseEndpoints
from forge_proxy.api.admin.tiers import TierEndpoints
from forge_proxy.api.identity import request_id_of
from forge_proxy.api.openapi import INVALID_REQUEST, error_responses
from forge_proxy.engine.answer import Engine

PREFIX = "/admin/v1"


_ERRORS = error_responses(**{
    "400": INVALID_REQUEST,
    "401": "The key is missing or wrong: one of server.admin_keys is needed.",
    "403": "The web page or host name is not allowed, or no admin keys are set.",
})  # fmt: skip
_NOT_MANAGED = error_responses(**{
    "409": "The model server is not managed by forge-proxy.",
    "502": "The model server failed.",
    "503": "The model server was stopped, cannot be started, or was not ready in time.",
})  # fmt: skip
_NO_MODEL = error_responses(**{"404": "No such model."})
_NOT_SWITCHED = error_responses(**{"502": "The budget could not be switched; nothing was changed."})
_STREAM = {"200": {"description": "The events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}}
_TOO_MANY_FOLLOWERS = error_responses(**{"429": "Too many clients follow the stream."})
_GOLDEN = {"200": {"description": "The file.", "content": {"text/plain": {"schema": {"type": "string"}}}}}
_NOT_ACTIVE = error_responses(**{"404": "No request with this id is under way."})
_NO_STORE = error_responses(**{"503": "The store is unavailable."})
_CONFLICT = error_responses(**{
    "409": "The state of the run does not allow it, or another version wrote the run; nothing was changed.",
})  # fmt: skip
_NOT_READABLE = error_responses(**{"409": "Another version wrote it, and this one cannot read it."})
_NOT_SUBMITTED = error_responses(**{
    "404": "No such model.",
    "409": "The Idempotency-Key was used for another submission.",
    "502": "The MCP server of a tool is unavailable.",
})  # fmt: skip


def _with_request_id(request: Request, response: Response) -> None:
    response.headers["x-request-id"] = request_id_of(request)


def add_admin_routes(app: FastAPI, parts: AdminServices, keepalive_seconds: float) -> None:
    """Add all routes to the application itself: it does not know the methods of routes in a nested router."""
    add = partial(_add_route, app)
    status, backend, settings = StatusEndpoints(parts), BackendEndpoints(parts), SettingsEndpoints(parts.configuration)
    add("GET", "/status", status.status, "Show the state of the daemon")
    add("GET", "/models", status.models, "List the models with their budgets", {"502": _NOT_MANAGED["502"]})
    tiers = TierEndpoints(parts.engine, parts.tiers)
    add("GET", "/tiers", tiers.list, "List the tiers with their models", {"502": _NOT_MANAGED["502"]})
    budget = BudgetEndpoints(parts.engine)
    add("GET", "/budget", budget.read, "Show the context budget")
    add("PUT", "/budget", budget.switch, "Switch the context budget", _NOT_SWITCHED)
    add("GET", "/backend", backend.read, "Show the model server")
    add("POST", "/backend/start", backend.start, "Start the model server", _NOT_MANAGED)
    add("POST", "/backend/stop", backend.stop, "Stop the model server", _NOT_MANAGED)
    add("POST", "/backend/restart", backend.restart, "Restart the model server", _NOT_MANAGED)
    add("POST", "/backend/model", backend.use, "Load another model", {**_NOT_MANAGED, **_NO_MODEL})
    add("GET", "/backend/logs", backend.logs, "Show the log of the model server", _NOT_MANAGED)
    guardrails = GuardrailEndpoints(parts.engine)
    add("GET", "/guardrails", guardrails.read, "Show the guardrails")
    add("PATCH", "/guardrails", guardrails.change, "Change guardrails")
    clients = ClientEndpoints(parts.engine, parts.clock)
    add("GET", "/guardrails/clients", clients.read, "Show how clients end their tasks")
    add("DELETE", "/guardrails/clients", clients.forget, "Reset what is known about clients")
    heuristics = HeuristicEndpoints(parts.engine)
    path = "/guardrails/heuristics"
    add("GET", path, heuristics.read, "Show what was learned about the heuristics")
    add("DELETE", path, heuristics.forget_all, "Reset what was learned")
    add("DELETE", f"{path}/{{name:path}}", heuristics.forget, "Reset what was learned about one model", _NO_MODEL)
    compaction = CompactionEndpoints(parts.engine)
    add("GET", "/compaction", compaction.read, "Show the compaction policy")
    add("PUT", "/compaction", compaction.choose, "Change the compaction policy")
    add("POST", "/compaction/preview", compaction.preview, "Preview a compaction", _NO_MODEL)
    sampling = SamplingEndpoints(parts.engine)
    add("GET", "/sampling", sampling.read, "Show the recommended sampling values")
    add("PUT", "/sampling", sampling.choose, "Switch the recommended sampling values on or off")
    text_responses = TextResponseEndpoints(parts.engine)
    _add_text_responses(add, "/text-responses", text_responses)
    former = [Depends(FormerName(f"{PREFIX}/text-answers", f"{PREFIX}/text-responses"))]
    _add_text_responses(partial(add, former=former), "/text-answers", text_responses)
    retries = RetryEndpoints(parts.engine)
    add("GET", "/retries", retries.read, "Show the statistics of the retries of invalid calls")
    add("DELETE", "/retries", retries.forget_all, "Reset the statistics of retries")
    add("DELETE", "/retries/{name:path}", retries.forget, "Reset the statistics of retries of one model", _NO_MODEL)
    add("GET", "/config", settings.read, "Show the settings")
    add("POST", "/reload", settings.reload, "Reload the settings", _NOT_SWITCHED)
    if parts.events is not None:
        events = EventEndpoints(parts.events, keepalive_seconds)
        add("GET", "/events", events.stream, "Stream the events of the daemon", {**_STREAM, **_TOO_MANY_FOLLOWERS})
    live = LiveRequestEndpoints(parts.engine.active, keepalive_seconds)
    add("GET", "/requests/stream", live.stream, "Stream the requests under way", {**_STREAM, **_TOO_MANY_FOLLOWERS})
    add("POST", "/requests/{request}/cancel", live.cancel, "Cancel a request under way", _NOT_ACTIVE)
    if parts.stored is not None:
        _add_requests(add, parts.stored, parts.engine)
    if parts.jobs is not None:
        _add_jobs(add, JobEndpoints(parts.jobs, keepalive_seconds))
    if parts.runs is not None:
        _add_runs(add, RunEndpoints(parts.runs, keepalive_seconds))
    if parts.tasks is not None:
        _add_tasks(add, TaskEndpoints(parts.tasks, keepalive_seconds))


def _add_text_responses(add: Callable[..., None], path: str, text_responses: TextResponseEndpoints) -> None:
    add("GET", path, text_responses.read, "Show the statistics of plain-text responses")
    add("DELETE", path, text_responses.forget_all, "Reset the statistics")
    add("DELETE", f"{path}/{{name:path}}", text_responses.forget, "Reset the statistics of one model", _NO_MODEL)


def _add_requests(add: Callable[..., None], stored: RequestSource, engine: Engine) -> None:
    requests, ledger = RequestEndpoints(stored.requests), LedgerEndpoints(stored.ledger, has_alerts=stored.has_alerts)
    replays = ReplayEndpoints(stored.requests, engine)
    unknown = error_responses(**{"404": "No such request."})
    add("GET", "/requests", requests.list, "List the finished requests", _NO_STORE)
    add("GET", "/requests/{request}", requests.read, "Show a finished request", {**_NO_STORE, **unknown})
    no_text = {
        **_NO_STORE,
        **error_responses(**{"404": "No such request, or no such model.", "409": "Its text is not stored."}),
    }
    answers = error_responses(**{"429": "The queue is full.", "502": "The model server failed."})
    add("POST", "/requests/{request}/replay", replays.replay, "Send a request again", {**no_text, **answers})
    add("GET", "/requests/{request}/export", replays.export, "Export a request as golden cases", {**no_text, **_GOLDEN})
    add("GET", "/ledger", ledger.read, "Show the reliability ledger", _NO_STORE)
    add("GET", "/ledger/alerts", ledger.alerts, "Show the models that got worse", _NO_STORE)


def _add_jobs(add: Callable[..., None], jobs: JobEndpoints) -> None:
    known = {**_NO_STORE, **error_responses(**{"404": "No such job."})}
    conflict = error_responses(**{
        "409": "The job has ended already, or another version wrote it; nothing was changed.",
    })  # fmt: skip
    add("GET", "/jobs", jobs.list, "List the jobs of all kinds", known)
    add("GET", "/jobs/{job_id}", jobs.read, "Show a job", {**known, **_NOT_READABLE})
    add("GET", "/jobs/{job_id}/events", jobs.events, "Stream the events of a job", {**known, **_STREAM})
    add("POST", "/jobs/{job_id}/cancel", jobs.cancel, "Cancel a job", {**known, **conflict})


def _add_runs(add: Callable[..., None], runs: RunEndpoints) -> None:
    known = {**_NO_STORE, **error_responses(**{"404": "No such run."})}
    add("POST", "/runs", runs.submit, "Submit a run", {**_NO_STORE, **_NOT_SUBMITTED})
    add("GET", "/runs", runs.list, "List the runs", _NO_STORE)
    add("GET", "/runs/{run_id}", runs.read, "Show a run", {**known, **_NOT_READABLE})
    add("GET", "/runs/{run_id}/events", runs.events, "Stream the events of a run", {**known, **_STREAM})
    add(
        "POST",
        "/runs/{run_id}/tool_outputs",
        runs.put_outputs,
        "Submit the outputs of tool calls",
        {**known, **_CONFLICT},
    )
    add("POST", "/runs/{run_id}/cancel", runs.cancel, "Cancel a run", {**known, **_CONFLICT})
    add("DELETE", "/runs/{run_id}", runs.delete, "Delete a run", {**known, **_CONFLICT})


def _add_tasks(add: Callable[..., None], tasks: TaskEndpoints) -> None:
    known = {**_NO_STORE, **error_responses(**{"404": "No such task."})}
    conflict = error_responses(**{
        "409": "The state of the task or of its repository does not allow it; nothing was changed.",
    })  # fmt: skip
    in_use = error_responses(**{"409": "The id or the Idempotency-Key was used for another task."})
    one = "/tasks/{task_id}"
    add("POST", "/tasks", tasks.submit, "Submit a task", {**_NO_STORE, **in_use})
    add("GET", "/tasks", tasks.list, "List the tasks", known)
    add("POST", "/tasks/gc", tasks.gc, "Remove worktrees that no task needs", _NO_STORE)
    add("GET", one, tasks.read, "Show a task", {**known, **_NOT_READABLE})
    add("GET", f"{one}/events", tasks.events, "Stream the events of a task", {**known, **_STREAM, **_NOT_READABLE})
    add("GET", f"{one}/plan", tasks.plan, "Show the plan of a task", {**known, **_NOT_READABLE})
    add("GET", f"{one}/calls", tasks.calls, "List the calls of a task", {**known, **_NOT_READABLE})
    add("GET", f"{one}/context", tasks.context, "Show a prompt and its response", {**known, **_NOT_READABLE})
    add("GET", f"{one}/diff", tasks.diff, "Show what a task has changed", {**known, **_NOT_READABLE})
    add("POST", f"{one}/approve", tasks.approve, "Merge the branch of a task", {**known, **conflict})
    add("POST", f"{one}/changes", tasks.changes, "Request changes of a branch", {**known, **conflict})
    add("POST", f"{one}/reject", tasks.reject, "Reject a branch", {**known, **conflict})
    add("POST", f"{one}/answer", tasks.answer, "Continue a halted task", {**known, **conflict})
    add("POST", f"{one}/retry", tasks.retry, "Retry a task from a step on", {**known, **conflict})
    add("POST", f"{one}/cancel", tasks.cancel, "Cancel a task", {**known, **conflict})
    add("DELETE", one, tasks.delete, "Delete a task", {**known, **conflict})


def _add_route(
    app: FastAPI,
    method: str,
    path: str,
    endpoint: Callable[..., Any],
    summary: str,
    errors: dict[str, Any] | None = None,
    former: Sequence[params.Depends] = (),
) -> None:
    responses: dict[int | str, dict[str, Any]] = {**_ERRORS}
    responses.update(errors or {})
    name = f"{method.lower()}{path.translate(str.maketrans('/-', '__', '{}'))}".replace(":path", "")
    app.router.add_api_route(
        PREFIX + path,
        endpoint,
        methods=[method],
        summary=summary,
        responses=responses,
        operation_id=name,
        tags=["admin"],
        dependencies=[Depends(_with_request_id), *former],
        deprecated=bool(former) or None,
        route_class_override=StrictRoute,
    )
