"""Logging setup: structlog to stderr, one line per request; messages of uvicorn and asyncio use the same output."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor
from typing_extensions import Buffer

from forge_proxy.engine.events import Event
from forge_proxy.engine.request_context import REQUEST_ID
from forge_proxy.telemetry.config import LogConfig
from forge_proxy.telemetry.log_events import to_log_line
from forge_proxy.telemetry.log_writer import LogWriter

_LOGGER_NAME = "forge_proxy"


def configure(config: LogConfig) -> LogWriter:
    """Set up logging for the whole process. Closing the returned writer flushes the queued lines."""
    console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    # Plain tracebacks: local variables contain prompts and keys.
    rendered = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer = rendered if console else structlog.processors.JSONRenderer(_as_json)
    level = logging.getLevelNamesMapping()[config.level.upper()]
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        renderer,
        _as_bytes,
    ]
    writer = LogWriter(sys.stderr.fileno(), lambda dropped: _dropped_line(processors, dropped))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _Stderr(writer))),
        cache_logger_on_first_use=True,
    )
    handler = _ToStructlog()
    for name in ("uvicorn.error", "asyncio", _LOGGER_NAME):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(max(level, logging.WARNING))
    return writer


def _dropped_line(processors: Sequence[Processor], dropped: int) -> bytes:
    """Render the line that reports dropped lines, in the configured format."""
    line: Any = {"event": "log lines dropped", "count": dropped}
    for process in processors:
        line = process(None, "warning", line)
    return line + b"\n"


def build_standard_logger() -> FilteringBoundLogger:
    """Return a log over the standard logger `forge_proxy`. The embedding program sets its level and handlers."""
    processors = [structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, _as_text]
    wrapper = structlog.stdlib.BoundLogger
    return structlog.wrap_logger(logging.getLogger(_LOGGER_NAME), processors, wrapper)  # pyright: ignore[reportReturnType]  # it has the same methods as FilteringBoundLogger


def _as_text(_: object, __: str, fields: EventDict) -> str:
    event = fields.pop("event")
    return " ".join([f"{event}:" if fields else f"{event}", *(f"{name}={value}" for name, value in fields.items())])


class _Stderr(io.RawIOBase):
    """File object for structlog that passes lines to a `LogWriter`."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def write(self, data: Buffer, /) -> int:
        line = bytes(data)
        self._writer.write(line)
        return len(line)


def _as_json(fields: EventDict, default: Callable[[Any], Any] = repr) -> bytes:
    """Render a line as JSON, including values that orjson rejects, such as integers of more than 64 bits."""
    try:
        return orjson.dumps(fields, default)
    except TypeError:
        return json.dumps(fields, default=default).encode("utf-8", "replace")


def _as_bytes(_: object, __: str, line: Any) -> bytes:
    return line.encode("utf-8", "replace") if isinstance(line, str) else line


class LogObserver:
    """Logs a line for each engine event. Lines never contain prompt or response text."""

    def __init__(self, log: FilteringBoundLogger | None = None) -> None:
        self._log: FilteringBoundLogger = log or structlog.get_logger()

    def __call__(self, event: Event) -> None:
        """See `engine.ports.Observer`."""
        line = to_log_line(event)
        match line.level:
            case "info":
                self._log.info(line.event, **line.fields)
            case "warning":
                self._log.warning(line.event, **line.fields)
            case "error":
                self._log.error(line.event, **line.fields)


class _ToStructlog(logging.Handler):
    """Forwards records of the standard `logging` module to structlog."""

    # A response is aborted on purpose if its backend connection breaks; `failed` has been logged.
    _EXPECTED = "ASGI callable returned without completing response."

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message == self._EXPECTED or _is_memory_error(record):
            return
        log: FilteringBoundLogger = structlog.get_logger()
        if fields := getattr(record, "log_fields", None):  # from a forge-proxy module that does not import structlog
            log.log(record.levelno, **fields)
        else:
            # uvicorn logs the error of a request in the task of that request.
            request_id = REQUEST_ID.get() if record.name == "uvicorn.error" else ""
            request = {"request_id": request_id} if request_id else {}
            log.log(record.levelno, message, logger=record.name, exc_info=record.exc_info, **request)


def _is_memory_error(record: logging.LogRecord) -> bool:
    """Return whether uvicorn reports a request that ran out of memory, for which `refused` has been logged."""
    exc = record.exc_info[1] if record.exc_info else None
    return record.name == "uvicorn.error" and isinstance(exc, MemoryError)
