"""A collector of traces that speaks OTLP over HTTP, as a small server of the test."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """What was exported. With `is_stuck` it answers nothing before the end."""

    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list["ReceivedSpan"])
    resource: dict[str, Any] = field(default_factory=dict[str, Any])
    is_stuck: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, count: int, seconds: float = 30.0) -> list[ReceivedSpan]:
        """Return the spans once there are this many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= count, seconds), self.spans
            return list(self.spans)


@dataclass
class ReceivedSpan:
    """One span."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start: int
    end: int
    attributes: dict[str, Any]
    error: str


@contextmanager
def otlp_collector() -> Generator[Collector]:
    """The collector, listening on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.is_stuck:
                collector.ended.wait(60)
                return
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            _add(collector, ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _add(collector: Collector, request: Any) -> None:
    with collector.changed:
        for of_resource in request.resource_spans:
            collector.resource = {one.key: _value(one.value) for one in of_resource.resource.attributes}
            for of_scope in of_resource.scope_spans:
                collector.spans += map(_read, of_scope.spans)
        collector.changed.notify_all()


def _read(span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        span.name, span.kind, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
        span.start_time_unix_nano, span.end_time_unix_nano, {one.key: _value(one.value) for one in span.attributes},
        span.status.message if span.status.code == 2 else "",
    )  # fmt: skip


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)
