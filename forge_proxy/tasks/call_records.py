"""Records the outcomes of the calls of a task, for observation only: tasks continue without the records (D42)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forge_proxy.core.errors import EmptyAnswer, ToolCallInvalid, ToolChoiceUnsatisfied
from forge_proxy.core.tasks.call_record import CallOutcome, TaskCallRecord
from forge_proxy.core.tasks.records import TaskCall
from forge_proxy.core.tasks.responses import ResponseCutOff, ResponseInvalid
from forge_proxy.tasks.phase_run import PhaseRun
from forge_proxy.tasks.structured_call import CallCosts, StructuredCall

_UNUSABLE: Mapping[type[Exception], CallOutcome] = {
    ResponseInvalid: "invalid",
    ResponseCutOff: "truncated",
    EmptyAnswer: "no_response",
    ToolCallInvalid: "no_response",
    ToolChoiceUnsatisfied: "no_response",
}
_OPEN = ("responded", "written")
"""The outcomes of calls whose attempt has not ended."""


def record_call(run: PhaseRun, call: TaskCall) -> None:
    """Record a call of the task's state."""
    if run.deps.call_log is not None:
        run.deps.call_log.record(to_record(run.state.task_id, call))


def record_failure(run: PhaseRun, wanted: StructuredCall[object], costs: CallCosts, error: Exception) -> None:
    """Record a call without a usable response."""
    state, log = run.state, run.deps.call_log
    if log is None:
        return
    outcome = _UNUSABLE.get(type(error), "error")
    record = TaskCallRecord(
        state.task_id, state.progress.attempts, len(state.responses), run.deps.now(), state.progress.operation,
        state.step_id, state.progress.attempt, wanted.tier.value, costs.model, wanted.form, outcome,
        costs.tokens.prompt, costs.tokens.cached, costs.tokens.completion, costs.seconds, costs.requests,
    )  # fmt: skip
    log.record(record)


def settle_call(run: PhaseRun, outcome: CallOutcome, match_levels: tuple[str, ...] | None = None) -> None:
    """Stage the outcome of the latest call of the current attempt, unless it is known, and record it."""
    calls = run.state.calls
    if not run.state.responses or not calls or calls[-1].outcome not in _OPEN:
        return
    call = replace(calls[-1], outcome=outcome)
    if match_levels is not None:
        call = replace(call, match_levels=match_levels)
    run.stage(calls=(*calls[:-1], call))
    record_call(run, call)


def to_record(task_id: str, call: TaskCall) -> TaskCallRecord:
    """Return the record of a call of a task's state."""
    return TaskCallRecord(
        task_id, call.round, call.part, call.at, call.operation, call.step, call.attempt, call.tier.value, call.model,
        call.form, call.outcome, call.prompt_tokens, call.cached_tokens, call.completion_tokens,
        call.seconds, call.requests, call.match_levels,
    )  # fmt: skip
