"""Traces over a real daemon, exported to a collector that speaks OTLP."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry.semconv._incubating.attributes import (  # pyright: ignore[reportMissingTypeStubs]
    gen_ai_attributes,
)

from tests.api.test_mistakes import ASK, PARIS, RIGHT
from tests.fakes.far_side import far_side
from tests.fakes.otlp_collector import Collector, ReceivedSpan, otlp_collector
from tests.fakes.processes import Process, command, daemon
from tests.fakes.says import Said
from tests.system.runs import Place, submission, submit, wait_until
from tests.transcripts.replies import openai_replies
from tests.transcripts.server import ScriptedServer, scripted_server

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{PARENT}-01"
UNKNOWN = Said(calls=(("get_wether_report_now", '{"city": "Paris"}'),))
CLIENT, SERVER, INTERNAL = 3, 2, 1


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def collector() -> Generator[Collector]:
    with otlp_collector() as running:
        yield running


@contextmanager
def tracing(server: ScriptedServer, collector: Collector, folder: Path, **settings: str) -> Generator[Process]:
    """A daemon that exports traces."""
    env = {
        "XDG_STATE_HOME": str(folder), "OTEL_BSP_SCHEDULE_DELAY": "100",
        "FORGE_PROXY_TELEMETRY__TRACES__ENDPOINT": collector.url, **settings,
    }  # fmt: skip
    with daemon("--backend", "openai", "--backend-url", f"{server.url}/v1", env=env) as process:
        yield process


def sent_headers(server: ScriptedServer) -> list[str]:
    """The `traceparent` headers that the model server received."""
    return [headers.get("traceparent", "") for headers in server.received_headers]


def ask(process: Process, server: ScriptedServer, *said: Said, stream: bool = False, **headers: str) -> httpx.Response:
    server.set_script(openai_replies(said, stream=stream))
    body = {**ASK, "stream": stream}
    return httpx.post(f"{process.url}/v1/chat/completions", json=body, headers=headers, timeout=60)


def by_parent(spans: list[ReceivedSpan], parent: str) -> list[ReceivedSpan]:
    return sorted((one for one in spans if one.parent_id == parent), key=lambda one: one.start)


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_has_a_span_with_a_child_for_each_attempt(
    server: ScriptedServer, collector: Collector, tmp_path: Path, stream: bool
) -> None:
    with tracing(server, collector, tmp_path) as process:
        before = time.time_ns()
        assert ask(process, server, UNKNOWN, RIGHT, stream=stream, traceparent=HEADER).is_success
        spans = collector.wait(3)

    (request,) = by_parent(spans, PARENT)
    first, second = by_parent(spans, request.span_id)
    assert {one.trace_id for one in spans} == {TRACE}
    assert sent_headers(server) == [f"00-{TRACE}-{first.span_id}-01", f"00-{TRACE}-{second.span_id}-01"]
    assert (request.kind, first.kind, first.name) == (SERVER, CLIENT, "chat scripted")
    assert before - 10**9 < request.start <= first.start <= first.end <= second.start <= second.end
    assert second.end <= request.end
    assert (first.error, second.error, request.error) == ("unknown_tool", "", "")
    assert first.attributes["gen_ai.operation.name"] == "chat"
    assert first.attributes["gen_ai.provider.name"] == "openai"
    assert first.attributes["gen_ai.usage.input_tokens"] == 10
    assert first.attributes["error.type"] == first.attributes["forge.fault"] == "unknown_tool"
    assert first.attributes["server.address"] == "127.0.0.1"
    assert (request.attributes["forge.outcome"], request.attributes["forge.attempts"]) == ("retried", 2)
    assert collector.resource["service.name"] == "forge-proxy"
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI")}
    assert {name for one in spans for name in one.attributes if name.startswith("gen_ai.")} <= known
    assert "Paris" not in repr(spans)


def test_content_is_exported_only_on_request(server: ScriptedServer, collector: Collector, tmp_path: Path) -> None:
    on = {"FORGE_PROXY_TELEMETRY__TRACES__CONTENT": "on"}
    with tracing(server, collector, tmp_path, **on) as process:
        assert ask(process, server, UNKNOWN, RIGHT).is_success
        spans = collector.wait(3)

    (request,) = by_parent(spans, "")
    first, second = by_parent(spans, request.span_id)
    asked = json.loads(second.attributes["gen_ai.input.messages"])
    assert asked[0] == {"role": "user", "parts": [{"type": "text", "content": "Paris, for 3 days."}]}
    assert [one["role"] for one in asked] == ["user", "assistant", "tool"]
    assert asked[2]["parts"][0]["type"] == "tool_call_response"
    (written,) = json.loads(first.attributes["gen_ai.output.messages"])
    assert written["parts"][0]["name"] == "get_wether_report_now"
    (delivered,) = json.loads(second.attributes["gen_ai.output.messages"])
    assert json.loads(delivered["parts"][0]["arguments"]) == PARIS


def test_an_error_and_an_unsampled_trace(server: ScriptedServer, collector: Collector, tmp_path: Path) -> None:
    with tracing(server, collector, tmp_path) as process:
        ask(process, server, RIGHT, traceparent=f"00-{TRACE}-{PARENT}-00")
        ask(process, server, Said(status=500, body={"error": {"message": "out of memory"}}))
        spans = collector.wait(2)

    assert sent_headers(server)[0].endswith("-00")
    assert len(spans) == 2
    (request,) = by_parent(spans, "")
    assert "out of memory" in request.error
    assert request.attributes["forge.outcome"] == "failed"
    assert by_parent(spans, request.span_id)[0].error


def test_no_request_waits_for_a_collector(server: ScriptedServer, collector: Collector, tmp_path: Path) -> None:
    collector.is_stuck = True
    with tracing(server, collector, tmp_path) as process:
        slowest = 0.0
        for _ in range(30):
            began = time.monotonic()
            assert ask(process, server, RIGHT).is_success
            slowest = max(slowest, time.monotonic() - began)
        began = time.monotonic()
        process.stop()
        assert time.monotonic() - began < 20
    assert slowest < 3


def test_a_collector_that_is_down_is_reported_once(server: ScriptedServer, tmp_path: Path) -> None:
    with tracing(server, Collector("http://127.0.0.1:9"), tmp_path, OTEL_BSP_SCHEDULE_DELAY="50") as process:
        for _ in range(3):
            assert ask(process, server, RIGHT).is_success
        process.stop()
        lines = [line for line in process.printed.splitlines() if "export" in line.lower()]
    assert len(lines) <= 2


def test_without_an_endpoint_opentelemetry_is_not_imported_and_no_header_is_sent(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with daemon(
        "--backend", "openai", "--backend-url", f"{server.url}/v1", env={"XDG_STATE_HOME": str(tmp_path)}
    ) as process:
        assert ask(process, server, RIGHT, traceparent=HEADER).is_success
    assert sent_headers(server) == [""]
    code = "import sys, forge_proxy.daemon.app; print([name for name in sys.modules if 'opentelemetry.sdk' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_wrong_endpoint_is_refused() -> None:
    ended = command("serve", env={"FORGE_PROXY_TELEMETRY__TRACES__ENDPOINT": "localhost:4318"})

    assert ended.code == 2
    assert "telemetry.traces.endpoint" in ended.err
    assert "expected the URL of a collector" in ended.err


def test_the_model_calls_and_tools_of_a_run_are_children_of_its_span(collector: Collector, tmp_path: Path) -> None:
    env = {"OTEL_BSP_SCHEDULE_DELAY": "100", "FORGE_PROXY_TELEMETRY__TRACES__ENDPOINT": collector.url}
    with far_side() as side, Place(side, tmp_path).daemon(env=env) as process:
        submitted = submit(process, submission(side, "look", "finish"))
        done = wait_until(process, submitted["id"], "completed", "failed")
        assert done["status"] == "completed", done
        with collector.changed:
            collector.changed.wait_for(lambda: any(one.name == "invoke_workflow" for one in collector.spans), 30)
        spans = list(collector.spans)

    run = next(one for one in spans if one.name == "invoke_workflow")
    children = by_parent(spans, run.span_id)
    called = [one for one in children if one.name.startswith("chat")]
    executed = [one for one in children if one not in called]
    assert {one.trace_id for one in spans} == {run.trace_id}
    assert len({one.span_id for one in called}) == len(called) >= 2
    assert len(executed) > 0
    for one in called:
        assert (one.kind, one.attributes["gen_ai.operation.name"]) == (CLIENT, "chat")
    for one in executed:
        assert one.name == f"execute_tool {one.attributes['gen_ai.tool.name']}"
    for one in children:
        assert one.attributes["forge.run.id"] == submitted["id"] == run.attributes["forge.run.id"]
        assert run.start <= one.start <= one.end <= run.end
