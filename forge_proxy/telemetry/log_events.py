"""Converts engine events to log lines: event name, fields, level. Log lines never contain prompt or response text.

The fields `because` (now `reason`), `told` (now `reported`) and `done` (now `interventions`) are kept until 0.3. A
renamed event has its former name in the field `former_event`, also until 0.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from forge_proxy.core.event_feed import EventLevel, EventName
from forge_proxy.core.guardrails.report import as_fits, cut_name
from forge_proxy.engine.events import (
    AttemptRetried,
    BudgetResolved,
    ContextCompacted,
    Event,
    FaultRateRaised,
    FaultRateSettled,
    FieldsOmitted,
    JobStatusChanged,
    LoopDetected,
    LostResponseRetried,
    ModelFailed,
    ModelSwapped,
    NotificationFailed,
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
    TemplateLearned,
    ToolExecuted,
    ToolServerFailed,
    ToolsUnvalidated,
)
from forge_proxy.engine.request_context import REQUEST_ID

_FAILURE_STATES = ("failed", "crash-loop")
_MAX_INTERVENTIONS_CHARS = 2000
"""Maximum length in characters of the interventions in a log line, which has them twice until 0.3."""
_FORMAT_ADAPTED = "the model server wants requests written differently"
_FIELDS_OMITTED = "fields that the model server has no place for"
_UNUSABLE_SCHEMAS = "schemas that cannot be used"
_EndEvent: TypeAlias = RequestAnswered | RequestFailed | RequestAbandoned
_RunEvent: TypeAlias = (
    RunStatusChanged | JobStatusChanged | RunNotResumable | ToolExecuted | ToolServerFailed | NotificationFailed
)
_LedgerEvent: TypeAlias = FaultRateRaised | FaultRateSettled
_RequestEvent: TypeAlias = (
    ToolsUnvalidated | PromptTruncated | ContextCompacted | AttemptRetried | LostResponseRetried | LoopDetected
)
_ServerEvent: TypeAlias = (
    SlotsDetected
    | BudgetResolved
    | SamplingRecommended
    | ServerStateChanged
    | TemplateLearned
    | RequestRewritten
    | FieldsOmitted
    | ModelSwapped
    | ModelFailed
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log."""

    event: EventName
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    level: EventLevel = "info"


def to_log_line(event: Event) -> LogLine:
    """Return the log line of an event."""
    if isinstance(event, _ServerEvent):
        return _server_line(event)
    if isinstance(event, _EndEvent):
        return _end_line(event)
    if isinstance(event, _RunEvent):
        return _run_line(event)
    if isinstance(event, _LedgerEvent):
        return _ledger_line(event)
    return _request_line(event)


def _current_request() -> dict[str, str]:
    """Return the id of the request in which an event without an id happens, for the fields of its line."""
    request_id = REQUEST_ID.get()
    return {"request_id": request_id} if request_id else {}


def _render_renamed(event: EventName, former: str, fields: dict[str, Any], level: EventLevel = "info") -> LogLine:
    """Return the line of an event that had another name before 0.2."""
    return LogLine(event, {**fields, "former_event": former}, level)


def _server_line(event: _ServerEvent) -> LogLine:
    """Return the log line of a model server event."""
    match event:
        case SlotsDetected(slots):
            is_reported = slots is not None
            return LogLine("backend slots", {"slots": slots, "reported": is_reported, "told": is_reported})
        case BudgetResolved(model, budget):
            resolved = {"mode": budget.mode.value, "tokens": budget.tokens}
            reason = {"reason": budget.reason, "because": budget.reason}
            return LogLine("budget", {"model": model, **resolved, **reason})
        case SamplingRecommended(model, family, source):
            note = "set sampling.defaults: on to use the recommended sampling parameters of this model"
            return LogLine("sampling", {"model": model, "family": family, "source": source, "note": note})
        case ServerStateChanged(server, state, detail, _):
            fields = {"server": server, "state": state, **({"detail": detail} if detail else {})}
            return LogLine("model server", fields, "warning" if state in _FAILURE_STATES else "info")
        case TemplateLearned(model, form, why):
            fields = {"model": model, "form": form} if form else {"model": model, "reason": why}
            return LogLine("chat template learned" if form else "chat template not learned", fields)
        case RequestRewritten(model, changes):
            return _render_renamed(
                "request format adapted", _FORMAT_ADAPTED, {"model": model, "changes": changes, **_current_request()}
            )
        case FieldsOmitted(omitted):
            return _render_renamed("fields omitted", _FIELDS_OMITTED, {"fields": omitted, **_current_request()})
        case ModelSwapped(model, before, seconds):
            return LogLine("model swapped", {"model": model, "before": before, "seconds": round(seconds, 3)})
        case ModelFailed(model, why, seconds):
            fields = {"model": model, "error": why, "refused_seconds": round(seconds)}
            return LogLine("model not loaded", fields, "warning")
        case _:
            assert_never(event)


def _ledger_line(event: _LedgerEvent) -> LogLine:
    """Return the log line of an alert of the reliability ledger."""
    match event:
        case FaultRateRaised(alert):
            rates = {
                "rate": round(alert.recent.value or 0, 4),
                "calls": alert.recent.total,
                "past_rate": round(alert.past.value or 0, 4),
                "past_calls": alert.past.total,
                "p_value": float(f"{alert.p_value:.2g}"),
            }
            tool = cut_name(alert.tool) or "(no call)"
            return LogLine("fault rate above its past", {"model": alert.model, "tool": tool, **rates}, "warning")
        case FaultRateSettled(model, tool):
            return LogLine("fault rate as before", {"model": model, "tool": cut_name(tool) or "(no call)"})
        case _:
            assert_never(event)


def _request_line(event: _RequestEvent) -> LogLine:
    """Return the log line of an event of a running request."""
    match event:
        case ToolsUnvalidated(request_id, tools):
            return _render_renamed(
                "unusable schemas", _UNUSABLE_SCHEMAS, {"request_id": request_id, "tools": tools}, "warning"
            )
        case PromptTruncated(model, read, least):
            note = "the model server dropped the beginning of a prompt; newer versions reject such prompts"
            fields = {"model": model, "tokens_read": read, "tokens_at_least": least, "note": note, **_current_request()}
            return _render_renamed("prompt truncated", "prompt cut", fields, "warning")
        case ContextCompacted(request_id, model, phase, cut, before, after, exact):
            compacted = {"request_id": request_id, "model": model, "phase": phase, "messages": cut}
            return LogLine("compacted", {**compacted, "tokens_before": before, "tokens_after": after, "exact": exact})
        case AttemptRetried(request_id, attempt, fault, tool, reason):
            fields = {"request_id": request_id, "attempt": attempt, "fault": fault.value}
            details = {"tool": tool, "reason": reason}
            return LogLine("retried", {**fields, **{name: text for name, text in details.items() if text}})
        case LostResponseRetried(request_id, error):
            return LogLine("retried", {"request_id": request_id, "fault": "response_lost", "reason": error}, "warning")
        case LoopDetected(request_id, attempt, loop, cut):
            span = {"part": loop.part, "period": loop.period, "start": loop.start, "end": loop.end}
            return LogLine("loop", {"request_id": request_id, "attempt": attempt, **span, "cut": cut}, "warning")
        case _:
            assert_never(event)


def _end_line(event: _EndEvent) -> LogLine:
    """Return the log line of the end of a request."""
    record = event.record
    times = {"seconds": round(record.seconds, 3), "queued_ms": round(1e3 * record.queued)}
    match event:
        case RequestAnswered(_, report):
            interventions = as_fits(record.interventions, _MAX_INTERVENTIONS_CHARS)
            fields = {
                "request_id": record.request_id,
                "model": record.model,
                "outcome": report.outcome.value,
                "attempts": report.attempts,
                "faults": [fault.value for fault in report.faults],
                "interventions": interventions,
                "done": interventions,
                "tokens": report.tokens,
            }
            return LogLine("answered", {**fields, **times})
        case RequestFailed():
            fields = {"request_id": record.request_id, "model": record.model, "error": record.error}
            return LogLine("failed", {**fields, **times}, "warning")
        case RequestAbandoned():
            return LogLine("abandoned", {"request_id": record.request_id, **times})
        case _:
            assert_never(event)


def _run_line(event: _RunEvent) -> LogLine:
    """Return the log line of a job or of one of its tool servers."""
    match event:
        case RunStatusChanged(run_id, status, error):
            return LogLine("run", {"run_id": run_id, "status": status, **({"error": error} if error else {})})
        case JobStatusChanged(job_id, kind, status, error):
            fields = {"job_id": job_id, "kind": kind, "status": status, **({"error": error} if error else {})}
            return LogLine("job", fields)
        case RunNotResumable(run_id, error, fault):
            return _render_renamed(
                "run not resumable", "run stranded", {"run_id": run_id, "error": error, "exc_info": fault}, "error"
            )
        case ToolExecuted(run_id, tool, _, seconds, error):
            fields = {"run_id": run_id, "tool": cut_name(tool), "seconds": round(seconds, 3)}
            return LogLine("tool executed", {**fields, **({"error": error} if error else {})})
        case ToolServerFailed(server, tool, key, why):
            fields = {"server": server, "tool": tool, "key": key, "error": why}
            return LogLine("tool server failed", fields, "warning")
        case NotificationFailed(server, key, why):
            return LogLine("notification failed", {"server": server, "key": key, "error": why}, "warning")
        case _:
            assert_never(event)
