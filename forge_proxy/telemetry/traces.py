"""Exports the traces of requests by OTLP, with the semantic conventions of OpenTelemetry for generative AI.

The only module that imports `opentelemetry` (extra `otel`); the daemon imports it if `telemetry.traces.endpoint` is
set. Spans are created after a request has ended, in a separate thread: no request waits for the collector. Spans that
do not fit into a bounded queue are dropped.
"""

from __future__ import annotations

import json
import logging
import queue
import random
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from forge_proxy._version import __version__
from forge_proxy.core.requests.content import AttemptContent, RequestContent
from forge_proxy.core.requests.records import AttemptRecord, RequestRecord
from forge_proxy.core.tracing import (
    ID_BITS,
    TraceContext,
    begin_model_call,
    begin_trace,
    is_sampled,
    trace_of_run,
)
from forge_proxy.engine.events import (
    Event,
    RequestAbandoned,
    RequestAnswered,
    RequestFailed,
    RunStatusChanged,
    ToolExecuted,
)
from forge_proxy.telemetry.trace_content import to_input_messages, to_output_messages

_MAX_WAITING = 512
"""Requests that wait for the thread."""
_MAX_RUNS = 10_000
_EXPORT_SECONDS = 5.0
_PROVIDERS = {"anthropic": "anthropic", "llama-server": "llama_cpp", "embedded": "llama_cpp"}
"""Names of providers: those of the conventions, if they have one."""
_LOG = logging.getLogger("forge_proxy.telemetry")
_SCOPE = "forge_proxy"
_Attributes = Mapping[str, Any]


class _Ended(NamedTuple):
    """A request that has ended and whose spans have not been created yet."""

    record: RequestRecord
    content: RequestContent | None
    ended_ns: int
    run_id: str = ""
    """Set for a model call of a run, which has no span of a request around its attempt."""


class _RunSpan(NamedTuple):
    """A run that has ended, or a call of its tools."""

    run_id: str
    tool: ToolExecuted | None
    began_ns: int
    ended_ns: int
    error: str


_Waiting: TypeAlias = _Ended | _RunSpan


class TraceWriter:
    """A listener of events, and an observer of contents if these are exported."""

    def __init__(self, endpoint: str, sample_ratio: float) -> None:
        """`endpoint` is the base URL of a collector, such as `http://127.0.0.1:4318`."""
        _report_failures_once()
        self._sample_ratio = sample_ratio
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS)
        self._ids = _PlannedIds()
        resource = Resource.create({"service.name": "forge-proxy", "service.version": __version__})
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(_SCOPE, __version__)
        self._backend: _Attributes = {}
        self._contents: dict[int, RequestContent] = {}
        self._runs: dict[str, int] = {}
        """When runs were first seen running, in nanoseconds since 1970."""
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(_MAX_WAITING)
        self.dropped = 0
        """Requests whose spans were not made."""
        self._thread = threading.Thread(target=self._run, name="forge-traces", daemon=True)
        self._thread.start()

    def set_backend(self, kind: str, url: str) -> None:
        """Set the model server that the spans of attempts name."""
        parts = urlsplit(url)
        self._backend = {
            "gen_ai.provider.name": _PROVIDERS.get(kind, kind),
            "server.address": parts.hostname,
            "server.port": parts.port,
        }

    def begin(self, traceparent: str, /) -> TraceContext:
        """See `engine.ports.RequestTracer`."""
        return begin_trace(traceparent, self._sample_ratio, random.getrandbits(ID_BITS))

    def begin_model_call(self, run_id: str, /) -> TraceContext:
        """See `engine.ports.RequestTracer`."""
        return begin_model_call(run_id, self._sample_ratio, random.getrandbits(ID_BITS))

    def end_model_call(self, run_id: str, record: RequestRecord, /) -> None:
        """See `engine.ports.RequestTracer`."""
        if record.trace is not None and record.trace.is_sampled:
            self._put(_Ended(record, None, time.time_ns(), run_id))

    def __call__(self, event: Event, /) -> None:
        """See `engine.ports.Observer`."""
        match event:
            case RequestAnswered(record) | RequestFailed(record) | RequestAbandoned(record):
                content = self._contents.pop(id(record), None)
                if record.trace is not None and record.trace.is_sampled:
                    self._put(_Ended(record, content, time.time_ns()))
            case ToolExecuted(run_id, _, _, seconds, error):
                now = time.time_ns()
                self._put(_RunSpan(run_id, event, now - _to_ns(seconds), now, error))
            case RunStatusChanged(run_id, status, error):
                self._follow_run(run_id, status, error or "")
            case _:
                pass

    def observe_content(self, content: AttemptContent | RequestContent, /) -> None:
        """See `engine.ports.ContentObserver`."""
        if isinstance(content, RequestContent):
            self._contents[id(content.record)] = content

    def close(self) -> None:
        """Export what waits, for a few seconds at most. Blocks."""
        with suppress(queue.Full):
            self._queue.put(None, timeout=1.0)
        self._thread.join(_EXPORT_SECONDS)
        ending = threading.Thread(target=self._provider.shutdown, name="forge-traces-end", daemon=True)
        ending.start()  # an exporter that retries would delay the end of the daemon
        ending.join(_EXPORT_SECONDS)

    def _follow_run(self, run_id: str, status: str, error: str) -> None:
        now = time.time_ns()
        if status not in ("completed", "failed", "cancelled"):
            if len(self._runs) < _MAX_RUNS:
                self._runs.setdefault(run_id, now)
        else:
            self._put(_RunSpan(run_id, None, self._runs.pop(run_id, now), now, error))

    def _put(self, ended: _Waiting) -> None:
        if isinstance(ended, _RunSpan) and not is_sampled(trace_of_run(ended.run_id).trace_id, self._sample_ratio):
            return
        try:
            self._queue.put_nowait(ended)
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        while (ended := self._queue.get()) is not None:
            try:
                self._write_request(ended) if isinstance(ended, _Ended) else self._write_run(ended)
            except Exception:  # noqa: BLE001  # later traces are exported all the same
                _LOG.exception("trace not exported")

    def _write_request(self, ended: _Ended) -> None:
        record, content, ended_ns, run_id = ended
        trace = record.trace
        assert trace is not None  # noqa: S101  # others are not put into the queue
        began_ns = ended_ns - _to_ns(record.seconds)
        contents: Sequence[AttemptContent | None] = content.attempts if content is not None else ()
        for attempt in record.attempts:
            known = contents[attempt.number - 1] if len(contents) >= attempt.number else None
            start = began_ns + _to_ns(attempt.started)
            error = attempt.fault or (record.error and "failed") or ""
            parent = trace.parent_id if run_id else trace.span_id
            attributes = {**self._attempt_attributes(record, attempt, known), "forge.run.id": run_id}
            self._write(
                trace, trace.attempt_span(attempt.number), parent, _name(record), SpanKind.CLIENT,
                start, start + _to_ns(attempt.seconds), attributes, error,
            )  # fmt: skip
        if run_id:
            return
        attributes = _request_attributes(record)
        if content is not None and record.attempts == ():
            attributes = {**attributes, "gen_ai.input.messages": json.dumps(to_input_messages(content.request.body))}
        error = record.error or ("the client disconnected" if record.result == "abandoned" else "")
        self._write(
            trace, trace.span_id, trace.parent_id, f"forge-proxy {record.origin.surface}", SpanKind.SERVER,
            began_ns, ended_ns, attributes, error,
        )  # fmt: skip

    def _write_run(self, span: _RunSpan) -> None:
        trace, tool = trace_of_run(span.run_id), span.tool
        run = {"forge.run.id": span.run_id}
        if tool is None:
            name, span_id, parent, kind = "invoke_workflow", trace.span_id, "", SpanKind.INTERNAL
            attributes = {"gen_ai.operation.name": name, **run}
        else:
            name, parent, kind = f"execute_tool {tool.tool}", trace.span_id, SpanKind.INTERNAL
            span_id = trace.child_span(f"{tool.call_id} {span.ended_ns}")
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool.tool,
                "gen_ai.tool.call.id": tool.call_id,
                "gen_ai.tool.type": "function",
                **run,
            }
        self._write(trace, span_id, parent, name, kind, span.began_ns, span.ended_ns, attributes, span.error)

    def _write(
        self, trace: TraceContext, span_id: str, parent_id: str, name: str, kind: SpanKind, start_ns: int, end_ns: int,
        attributes: _Attributes, error: str,
    ) -> None:  # fmt: skip
        self._ids.next_trace, self._ids.next_span = int(trace.trace_id, 16), int(span_id, 16)
        parent = None
        if parent_id:
            flags = TraceFlags(TraceFlags.SAMPLED)
            remote = SpanContext(int(trace.trace_id, 16), int(parent_id, 16), is_remote=True, trace_flags=flags)
            parent = set_span_in_context(NonRecordingSpan(remote))
        known = {key: value for key, value in attributes.items() if value not in (None, "", ())}
        if error:
            known["error.type"] = error if error.isidentifier() else "error"
        span = self._tracer.start_span(name, parent, kind, known, start_time=start_ns)
        if error:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_ns)

    def _attempt_attributes(
        self, record: RequestRecord, attempt: AttemptRecord, content: AttemptContent | None
    ) -> dict[str, Any]:
        tokens = attempt.tokens
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": record.served or record.model,
            "gen_ai.request.stream": record.is_streamed,
            "gen_ai.usage.input_tokens": tokens.prompt,
            "gen_ai.usage.output_tokens": tokens.completion,
            "gen_ai.usage.cache_read.input_tokens": tokens.cached,
            "gen_ai.usage.reasoning.output_tokens": tokens.reasoning,
            "forge.attempt": attempt.number,
            "forge.fault": attempt.fault,
            "forge.fault.tool": attempt.tool,
            "forge.fault.reason": attempt.reason,
            **self._backend,
        }
        if content is not None:
            attributes["gen_ai.response.finish_reasons"] = tuple(reply.finish or "" for reply in content.replies)
            body = content.call.request.body
            attributes["gen_ai.input.messages"] = json.dumps(to_input_messages(body, content.call.added))
            attributes["gen_ai.output.messages"] = json.dumps(to_output_messages(content.replies))
        return attributes


class _PlannedIds(IdGenerator):
    """Returns the ids that were sent to the model server. Only the one thread uses it."""

    next_trace = 0
    next_span = 0

    def generate_span_id(self) -> int:
        return self.next_span

    def generate_trace_id(self) -> int:
        return self.next_trace


class _FirstOnly(logging.Filter):
    """Passes the first record: a collector that is down would be reported every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._has_passed = False

    def filter(self, record: logging.LogRecord) -> bool:
        has_passed, self._has_passed = self._has_passed, True
        return not has_passed


def _report_failures_once() -> None:
    for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal"):
        logger = logging.getLogger(name)
        if not any(isinstance(one, _FirstOnly) for one in logger.filters):
            logger.addFilter(_FirstOnly())


def _request_attributes(record: RequestRecord) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": record.model or record.served,
        "gen_ai.response.model": record.served,
        "gen_ai.request.stream": record.is_streamed,
        "gen_ai.response.time_to_first_chunk": record.first_output,
        "forge.request.id": record.request_id,
        "forge.surface": record.origin.surface,
        "forge.client": record.origin.key_label,
        "user_agent.original": record.origin.program,
        "forge.outcome": record.result,
        "forge.attempts": len(record.attempts),
        "forge.interventions": record.interventions,
        "forge.queue.seconds": record.queued,
        "forge.retry.tokens": record.retry_tokens,
    }


def _name(record: RequestRecord) -> str:
    return f"chat {record.served or record.model or ''}".rstrip()


def _to_ns(seconds: float) -> int:
    return int(seconds * 1e9)
