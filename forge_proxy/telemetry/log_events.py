"""What the log says of each event: a word, its fields, how grave it is. Never a text of a prompt or an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, assert_never

from forge_proxy.core.guardrails.report import as_fits
from forge_proxy.engine.events import (
    AttemptRetried,
    BudgetResolved,
    ContextCompacted,
    Event,
    FieldsOmitted,
    LoopDetected,
    LostResponseRetried,
    ModelFailed,
    ModelSwapped,
    PromptTruncated,
    RequestAbandoned,
    RequestAnswered,
    RequestFailed,
    RequestRewritten,
    RunNotResumable,
    RunStatusChanged,
    SamplingRecommended,
    ServerStateChanged,
    SlotsDetected,
    ToolServerFailed,
    ToolsUnvalidated,
)

Level: TypeAlias = Literal["info", "warning", "error"]
_BAD = ("failed", "crash-loop")
_ROOM = 4000
"""Characters of a line for what was done to the calls."""
_End: TypeAlias = RequestAnswered | RequestFailed | RequestAbandoned
_Run: TypeAlias = RunStatusChanged | RunNotResumable | ToolServerFailed
_Request: TypeAlias = (
    ToolsUnvalidated | PromptTruncated | ContextCompacted | AttemptRetried | LostResponseRetried | LoopDetected
)
_Server: TypeAlias = (
    SlotsDetected
    | BudgetResolved
    | SamplingRecommended
    | ServerStateChanged
    | RequestRewritten
    | FieldsOmitted
    | ModelSwapped
    | ModelFailed
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log."""

    said: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    level: Level = "info"


def line_of(event: Event) -> LogLine:
    """The line for what happened."""
    if isinstance(event, _Server):
        return _of_server(event)
    if isinstance(event, _End):
        return _of_end(event)
    if isinstance(event, _Run):
        return _of_run(event)
    return _of_request(event)


def _of_server(event: _Server) -> LogLine:
    """About the model server and its models."""
    match event:
        case SlotsDetected(slots):
            return LogLine("backend slots", {"slots": slots, "told": slots is not None})
        case BudgetResolved(model, budget):
            chosen = {"mode": budget.mode.value, "tokens": budget.tokens, "because": budget.because}
            return LogLine("budget", {"model": model, **chosen})
        case SamplingRecommended(model, family, source):
            note = "sampling.defaults: on would use what its makers recommend"
            return LogLine("sampling", {"model": model, "family": family, "source": source, "note": note})
        case ServerStateChanged(server, state, detail):
            told = {"server": server, "state": state, **({"detail": detail} if detail else {})}
            return LogLine("model server", told, "warning" if state in _BAD else "info")
        case RequestRewritten(model, changes):
            return LogLine("the model server wants requests written differently", {"model": model, "changes": changes})
        case FieldsOmitted(fields):
            return LogLine("fields that the model server has no place for", {"fields": fields})
        case ModelSwapped(model, before, seconds):
            return LogLine("model swapped", {"model": model, "before": before, "seconds": round(seconds, 3)})
        case ModelFailed(model, why, seconds):
            told = {"model": model, "error": why, "refused_seconds": round(seconds)}
            return LogLine("model not loaded", told, "warning")
        case _:
            assert_never(event)


def _of_request(event: _Request) -> LogLine:
    """About a request that is under way."""
    match event:
        case ToolsUnvalidated(request_id, tools):
            return LogLine("schemas that cannot be used", {"request_id": request_id, "tools": tools}, "warning")
        case PromptTruncated(model, read, least):
            note = "the model server dropped the beginning of a prompt; a newer version would have refused it"
            told = {"model": model, "tokens_read": read, "tokens_at_least": least, "note": note}
            return LogLine("prompt cut", told, "warning")
        case ContextCompacted(request_id, model, phase, cut, before, after, exact):
            what = {"request_id": request_id, "model": model, "phase": phase, "messages": cut}
            return LogLine("compacted", {**what, "tokens_before": before, "tokens_after": after, "exact": exact})
        case AttemptRetried(request_id, attempt, fault, tool, reason):
            told = {"request_id": request_id, "attempt": attempt, "fault": fault.value}
            known = {"tool": tool, "reason": reason}
            return LogLine("retried", {**told, **{name: text for name, text in known.items() if text}})
        case LostResponseRetried(request_id, error):
            return LogLine("retried", {"request_id": request_id, "fault": "response_lost", "reason": error}, "warning")
        case LoopDetected(request_id, attempt, loop, cut):
            where = {"part": loop.part, "period": loop.period, "start": loop.start, "end": loop.end}
            return LogLine("loop", {"request_id": request_id, "attempt": attempt, **where, "cut": cut}, "warning")
        case _:
            assert_never(event)


def _of_end(event: _End) -> LogLine:
    """About the end of a request."""
    times = {"seconds": round(event.seconds, 3), "queued_ms": round(1e3 * event.queued)}
    match event:
        case RequestAnswered(request_id, model, report):
            told = {
                "request_id": request_id,
                "model": model,
                "outcome": report.outcome.value,
                "attempts": report.attempts,
                "faults": [fault.value for fault in report.faults],
                "done": as_fits(report.done, _ROOM),
                "tokens": report.tokens,
            }
            return LogLine("answered", {**told, **times})
        case RequestFailed(request_id, model, error):
            return LogLine("failed", {"request_id": request_id, "model": model, "error": error, **times}, "warning")
        case RequestAbandoned(request_id):
            return LogLine("abandoned", {"request_id": request_id, **times})
        case _:
            assert_never(event)


def _of_run(event: _Run) -> LogLine:
    """About a run, and what executes its tools."""
    match event:
        case RunStatusChanged(run_id, status, error):
            return LogLine("run", {"run_id": run_id, "status": status, **({"error": error} if error else {})})
        case RunNotResumable(run_id, error, fault):
            return LogLine("run stranded", {"run_id": run_id, "error": error, "exc_info": fault}, "error")
        case ToolServerFailed(server, tool, key, why):
            told = {"server": server, "tool": tool, "key": key, "error": why}
            return LogLine("tool server failed", told, "warning")
        case _:
            assert_never(event)
