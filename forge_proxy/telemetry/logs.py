"""Log lines: structlog to stderr, one line a request, uvicorn's own messages through the same door."""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import suppress
from typing import Any, BinaryIO, assert_never, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger
from typing_extensions import Buffer

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
from forge_proxy.telemetry.config import LogConfig

_OURS = "forge_proxy"
_BAD = ("failed", "crash-loop")
_ROOM = 4000
"""Characters of a line for what was done to the calls."""


def configure(config: LogConfig) -> None:
    """Set up logging for the whole process."""
    console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    renderer = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer(orjson.dumps)
    level = logging.getLevelNamesMapping()[config.level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
            _as_bytes,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _Stderr())),
        cache_logger_on_first_use=True,
    )
    handler = _ToStructlog()
    for name in ("uvicorn.error", "asyncio", _OURS):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(max(level, logging.WARNING))


def inside_another_program() -> FilteringBoundLogger:
    """A log by the standard logger `forge_proxy`, whose level and handlers are that program's to set."""
    processors = [structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, _in_words]
    wrapper = structlog.stdlib.BoundLogger
    return structlog.wrap_logger(logging.getLogger(_OURS), processors, wrapper)  # pyright: ignore[reportReturnType]  # it has the same methods


def _in_words(_: object, __: str, said: EventDict) -> str:
    event = said.pop("event")
    return " ".join([f"{event}:" if said else f"{event}", *(f"{name}={value}" for name, value in said.items())])


class _Stderr(io.RawIOBase):
    """Standard error, where a line that cannot be written is dropped: a full disk is no reason to fail a request."""

    def write(self, data: Buffer, /) -> int:
        with suppress(OSError):
            os.write(sys.stderr.fileno(), data)
        return memoryview(data).nbytes


def _as_bytes(_: object, __: str, line: Any) -> bytes:
    return line.encode("utf-8", "replace") if isinstance(line, str) else line


class LogObserver:
    """Writes a line for what the engine tells. Holds no text of a prompt or an answer."""

    def __init__(self, log: FilteringBoundLogger | None = None) -> None:
        self._log: FilteringBoundLogger = log or structlog.get_logger()

    def __call__(self, event: Event) -> None:
        """See `engine.ports.Observer`."""
        match event:
            case SlotsFound(slots):
                self._log.info("backend slots", slots=slots, told=slots is not None)
            case BudgetChosen(model, budget):
                mode, tokens = budget.mode.value, budget.tokens
                self._log.info("budget", model=model, mode=mode, tokens=tokens, because=budget.because)
            case BetterSamplingKnown(model, family, source):
                note = "sampling.defaults: on would use what its makers recommend"
                self._log.info("sampling", model=model, family=family, source=source, note=note)
            case ServerTurned(server, state, detail):
                tell = self._log.warning if state in _BAD else self._log.info
                tell("model server", server=server, state=state, **({"detail": detail} if detail else {}))
            case Unchecked(request_id, tools):
                self._log.warning("schemas that cannot be used", request_id=request_id, tools=tools)
            case Accommodated(model, changes):
                self._log.info("the model server wants requests written differently", model=model, changes=changes)
            case LeftOut(fields):
                self._log.info("fields that the model server has no place for", fields=fields)
            case PromptCut(model, read, least):
                note = "the model server dropped the beginning of a prompt; a newer version would have refused it"
                self._log.warning("prompt cut", model=model, tokens_read=read, tokens_at_least=least, note=note)
            case Compacted(request_id, model, phase, cut, before, after, exact):
                self._log.info(
                    "compacted",
                    request_id=request_id,
                    model=model,
                    phase=phase,
                    messages=cut,
                    tokens_before=before,
                    tokens_after=after,
                    exact=exact,
                )
            case Retried(request_id, attempt, fault):
                self._log.info("retried", request_id=request_id, attempt=attempt, fault=fault.value)
            case AskedAnew(request_id, error):
                self._log.warning("asked anew", request_id=request_id, error=error)
            case Looped(request_id, attempt, loop, cut):
                self._log.warning(
                    "loop",
                    request_id=request_id,
                    attempt=attempt,
                    part=loop.part,
                    period=loop.period,
                    start=loop.start,
                    end=loop.end,
                    cut=cut,
                )
            case ModelSwapped(model, before, seconds):
                self._log.info("model swapped", model=model, before=before, seconds=round(seconds, 3))
            case ModelFailed(model, why, seconds):
                self._log.warning("model not loaded", model=model, error=why, refused_seconds=round(seconds))
            case Answered(request_id, model, report, seconds, queued):
                self._log.info(
                    "answered",
                    request_id=request_id,
                    model=model,
                    outcome=report.outcome.value,
                    attempts=report.attempts,
                    faults=[fault.value for fault in report.faults],
                    done=as_fits(report.done, _ROOM),
                    tokens=report.tokens,
                    **_times(seconds, queued),
                )
            case Failed(request_id, model, error, seconds, queued):
                times = _times(seconds, queued)
                self._log.warning("failed", request_id=request_id, model=model, error=error, **times)
            case Abandoned(request_id, seconds, queued):
                self._log.info("abandoned", request_id=request_id, **_times(seconds, queued))
            case RunMoved(run_id, status, error):
                self._log.info("run", run_id=run_id, status=status, **({"error": error} if error else {}))
            case RunStranded(run_id, error, fault):
                self._log.error("run stranded", run_id=run_id, error=error, exc_info=fault)
            case ToolServerFailed(server, tool, key, why):
                self._log.warning("tool server failed", server=server, tool=tool, key=key, error=why)
            case _:
                assert_never(event)


def _times(seconds: float, queued: float) -> dict[str, float]:
    return {"seconds": round(seconds, 3), "queued_ms": round(1e3 * queued)}


class _ToStructlog(logging.Handler):
    """Takes what libraries log in the standard way."""

    # An answer whose backend broke off is cut on purpose (DESIGN §5); `failed` has been logged for it.
    _EXPECTED = "ASGI callable returned without completing response."

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message == self._EXPECTED:
            return
        log: FilteringBoundLogger = structlog.get_logger()
        if said := getattr(record, "said", None):  # our own, by a part that does not know the log
            log.log(record.levelno, **said)
        else:
            log.log(record.levelno, message, logger=record.name, exc_info=record.exc_info)
