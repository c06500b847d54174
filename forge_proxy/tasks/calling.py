"""`call_llm`: sends the stored prompt and stores the response, which is never requested again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jobs.actions import NextAction
from forge_proxy.core.jobs.records import Document, NewEvent
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.tasks.decisions import ASSEMBLE, WRITE
from forge_proxy.core.tasks.models import AssembledContext, CapabilityTier, Plan
from forge_proxy.core.tasks.operations import OPERATIONS
from forge_proxy.core.tasks.records import TaskCall
from forge_proxy.core.tasks.responses import parse_files, parse_json
from forge_proxy.core.tasks.schemas import files_schema, plan_schema
from forge_proxy.tasks.attempt_errors import MODEL_ERRORS, AttemptError
from forge_proxy.tasks.batched_calls import BatchedRequests, RequestSubmitted
from forge_proxy.tasks.call_records import record_call, record_failure
from forge_proxy.tasks.phase_run import PhaseRun
from forge_proxy.tasks.ports import BatchedRequestFailed
from forge_proxy.tasks.server_wait import ServerWait
from forge_proxy.tasks.structured_call import CallCosts, StructuredCall, StructuredResult


async def call_llm(run: PhaseRun) -> NextAction:
    """Have the model answer the stored prompt. Raises `AttemptError`."""
    state = run.state
    assert state.prompt is not None  # noqa: S101  # the phase before has stored it
    context = TypeAdapter(AssembledContext).validate_json(await run.read_document(state.prompt))
    tier = tier_of(run)
    schema, parse = await response_schema(run), _parser(run)
    number = len(state.calls) + 1
    wanted = StructuredCall(
        context,
        tier,
        state.form,
        schema,
        parse,
        f"{state.task_id}/{number}",
        state.task_id,
        state.input.models.get(tier),
    )

    costs = CallCosts()
    try:
        result = await _request(run, wanted, costs)
    except RequestSubmitted as submitted:
        return submitted.action
    except (BatchedRequestFailed, ForgeError) as raised:
        error = raised.error if isinstance(raised, BatchedRequestFailed) else raised
        record_failure(run, wanted, costs, error)
        if isinstance(error, MODEL_ERRORS):
            raise AttemptError(f"{type(error).__name__}: {error}") from raised
        raise
    document = Document(result.call.text.encode())
    call = result.call
    entry = TaskCall(
        state.progress.operation, state.step_id, state.progress.attempt, tier, call.model, call.form, state.prompt,
        document.digest, call.prompt_tokens, call.cached_tokens, call.completion_tokens, call.seconds, result.requests,
        round=state.progress.attempts, part=len(state.responses), at=run.deps.now(),
    )  # fmt: skip
    event = run.event(
        "called", tier=tier.value, model=call.model, form=call.form, requests=result.requests,
        prompt_tokens=call.prompt_tokens, cached_tokens=call.cached_tokens, completion_tokens=call.completion_tokens,
        seconds=round(call.seconds, 3),
    )  # fmt: skip
    calls, responses = (*state.calls, entry), (*state.responses, document.digest)
    run.stage(event, documents=[document], calls=calls, responses=responses)
    record_call(run, entry)
    return WRITE


async def _request(run: PhaseRun, wanted: StructuredCall[Any], costs: CallCosts) -> StructuredResult[Any]:
    """Return the response. Raises `RequestSubmitted` and `BatchedRequestFailed` in the mode `batch`."""
    caller, batched, wait = run.deps.caller, run.state.current_batched, _server_wait(run)
    terms = batched.terms if batched is not None else await caller.find_terms(wanted, run.state.method, wait)
    if run.state.input.mode == "batch":
        return await caller.call(wanted, terms, BatchedRequests(run, wanted, terms).send, costs)
    async with _in_order(run, wanted) as ordered:
        return await caller.call(ordered, terms, partial(caller.send, ordered, wait), costs)


async def test_model(run: PhaseRun) -> NextAction:
    """Find out how the model of the current operation can respond. It may take minutes on a slow machine."""
    tier, kind = tier_of(run), OPERATIONS[run.state.progress.operation].response
    run.stage(tested=await run.deps.caller.test(tier, run.state.input.models.get(tier), kind, _server_wait(run)))
    return ASSEMBLE


def _server_wait(run: PhaseRun) -> ServerWait:
    async def report_wait(error: ForgeError, seconds: float) -> None:
        await run.writer.write(NewEvent("waiting", {"error": type(error).__name__, "seconds": seconds}))

    return ServerWait(run.writer.cancel, report_wait)


@asynccontextmanager
async def _in_order(run: PhaseRun, wanted: StructuredCall[Any]) -> AsyncGenerator[StructuredCall[Any]]:
    """Have the first of several sub-tasks of one step fill the model server's cache with the prefix that all share."""
    parent = run.writer.job.parent
    if parent is None or run.state.calls:
        yield wanted
        return
    async with run.deps.prefixes.wait_for_first(parent, run.writer.cancel) as on_first_token:
        yield replace(wanted, on_first_token=on_first_token)


def tier_of(run: PhaseRun) -> CapabilityTier:
    """Return the tier of the current operation; a step of a plan may have its own (D10)."""
    progress = run.state.progress
    tier = OPERATIONS[progress.operation].tier
    step = progress.current
    if progress.operation == "generate" and step is not None and step.capability_tier is not None:
        return step.capability_tier
    return tier


async def response_schema(run: PhaseRun) -> JsonObject:
    """Return the schema of the response to the current operation."""
    operation, paths = run.state.progress.operation, run.scope.exact_paths
    if OPERATIONS[operation].response == "plan":
        return plan_schema(run.state.input.max_fan_out_depth or 0)
    if operation == "resolve_conflicts":
        return files_schema(paths, ())
    if paths is None:
        return files_schema(None)
    worktree = await run.worktree()
    existing = [path for path in paths if await run.deps.repositories.read(worktree, path) is not None]
    return files_schema(paths, existing)


def _parser(run: PhaseRun) -> Callable[[str], Any]:
    if OPERATIONS[run.state.progress.operation].response == "plan":
        return partial(parse_json, model=Plan)
    return partial(parse_files, form=run.state.form)
