"""What the log says of each event: a word, its fields, how grave it is. Never a text of a prompt or an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, assert_never

from forge_proxy.engine.events import (
    Abandoned,
    Accommodated,
    Answered,
    AskedAnew,
    BetterSamplingKnown,
    BudgetChosen,
    Compacted,
    Event,
    Failed,
    LeftOut,
    Looped,
    ModelFailed,
    ModelSwapped,
    PromptCut,
    Retried,
    RunMoved,
    RunStranded,
    ServerTurned,
    SlotsFound,
    ToolServerFailed,
    Unchecked,
)
from forge_proxy.engine.report import as_fits

Level: TypeAlias = Literal["info", "warning", "error"]
_BAD = ("failed", "crash-loop")
_ROOM = 4000
"""Characters of a line for what was done to the calls."""
_End: TypeAlias = Answered | Failed | Abandoned
_Run: TypeAlias = RunMoved | RunStranded | ToolServerFailed
_Request: TypeAlias = Unchecked | PromptCut | Compacted | Retried | AskedAnew | Looped
_Server: TypeAlias = (
    SlotsFound | BudgetChosen | BetterSamplingKnown | ServerTurned | Accommodated | LeftOut | ModelSwapped | ModelFailed
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the log."""

    said: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    level: Level = "info"


def line_of(event: Event) -> Line:
    """The line for what happened."""
    if isinstance(event, _Server):
        return _of_server(event)
    if isinstance(event, _End):
        return _of_end(event)
    if isinstance(event, _Run):
        return _of_run(event)
    return _of_request(event)


def _of_server(event: _Server) -> Line:
    """About the model server and its models."""
    match event:
        case SlotsFound(slots):
            return Line("backend slots", {"slots": slots, "told": slots is not None})
        case BudgetChosen(model, budget):
            chosen = {"mode": budget.mode.value, "tokens": budget.tokens, "because": budget.because}
            return Line("budget", {"model": model, **chosen})
        case BetterSamplingKnown(model, family, source):
            note = "sampling.defaults: on would use what its makers recommend"
            return Line("sampling", {"model": model, "family": family, "source": source, "note": note})
        case ServerTurned(server, state, detail):
            told = {"server": server, "state": state, **({"detail": detail} if detail else {})}
            return Line("model server", told, "warning" if state in _BAD else "info")
        case Accommodated(model, changes):
            return Line("the model server wants requests written differently", {"model": model, "changes": changes})
        case LeftOut(fields):
            return Line("fields that the model server has no place for", {"fields": fields})
        case ModelSwapped(model, before, seconds):
            return Line("model swapped", {"model": model, "before": before, "seconds": round(seconds, 3)})
        case ModelFailed(model, why, seconds):
            told = {"model": model, "error": why, "refused_seconds": round(seconds)}
            return Line("model not loaded", told, "warning")
        case _:
            assert_never(event)


def _of_request(event: _Request) -> Line:
    """About a request that is under way."""
    match event:
        case Unchecked(request_id, tools):
            return Line("schemas that cannot be used", {"request_id": request_id, "tools": tools}, "warning")
        case PromptCut(model, read, least):
            note = "the model server dropped the beginning of a prompt; a newer version would have refused it"
            told = {"model": model, "tokens_read": read, "tokens_at_least": least, "note": note}
            return Line("prompt cut", told, "warning")
        case Compacted(request_id, model, phase, cut, before, after, exact):
            what = {"request_id": request_id, "model": model, "phase": phase, "messages": cut}
            return Line("compacted", {**what, "tokens_before": before, "tokens_after": after, "exact": exact})
        case Retried(request_id, attempt, fault, tool, reason):
            told = {"request_id": request_id, "attempt": attempt, "fault": fault.value}
            known = {"tool": tool, "reason": reason}
            return Line("retried", {**told, **{name: text for name, text in known.items() if text}})
        case AskedAnew(request_id, error):
            return Line("retried", {"request_id": request_id, "fault": "response_lost", "reason": error}, "warning")
        case Looped(request_id, attempt, loop, cut):
            where = {"part": loop.part, "period": loop.period, "start": loop.start, "end": loop.end}
            return Line("loop", {"request_id": request_id, "attempt": attempt, **where, "cut": cut}, "warning")
        case _:
            assert_never(event)


def _of_end(event: _End) -> Line:
    """About the end of a request."""
    times = {"seconds": round(event.seconds, 3), "queued_ms": round(1e3 * event.queued)}
    match event:
        case Answered(request_id, model, report):
            told = {
                "request_id": request_id,
                "model": model,
                "outcome": report.outcome.value,
                "attempts": report.attempts,
                "faults": [fault.value for fault in report.faults],
                "done": as_fits(report.done, _ROOM),
                "tokens": report.tokens,
            }
            return Line("answered", {**told, **times})
        case Failed(request_id, model, error):
            return Line("failed", {"request_id": request_id, "model": model, "error": error, **times}, "warning")
        case Abandoned(request_id):
            return Line("abandoned", {"request_id": request_id, **times})
        case _:
            assert_never(event)


def _of_run(event: _Run) -> Line:
    """About a run, and what executes its tools."""
    match event:
        case RunMoved(run_id, status, error):
            return Line("run", {"run_id": run_id, "status": status, **({"error": error} if error else {})})
        case RunStranded(run_id, error, fault):
            return Line("run stranded", {"run_id": run_id, "error": error, "exc_info": fault}, "error")
        case ToolServerFailed(server, tool, key, why):
            told = {"server": server, "tool": tool, "key": key, "error": why}
            return Line("tool server failed", told, "warning")
        case _:
            assert_never(event)
