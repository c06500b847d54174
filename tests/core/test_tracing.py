"""Trace Context: clients' traces are continued, and ids of attempts follow from those of their request."""

from __future__ import annotations

import random

import pytest

from forge_proxy.core.tracing import ID_BITS, TraceContext, begin_trace, is_sampled, trace_of_run

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_the_trace_of_a_client_is_continued() -> None:
    trace = begin_trace(f"00-{TRACE}-{PARENT}-01", 0.0, 2**191 + 5)

    assert (trace.trace_id, trace.parent_id, trace.is_sampled) == (TRACE, PARENT, True)
    assert trace.span_id not in (PARENT, "")
    assert trace.traceparent(1) == f"00-{TRACE}-{trace.attempt_span(1)}-01"
    assert len({trace.attempt_span(1), trace.attempt_span(2), trace.span_id}) == 3
    assert trace.traceparent(1) == TraceContext(TRACE, trace.span_id, PARENT).traceparent(1)


def test_a_client_decides_whether_its_trace_is_sampled() -> None:
    trace = begin_trace(f"00-{TRACE}-{PARENT}-00", 1.0, 1)

    assert not trace.is_sampled
    assert trace.traceparent(1).endswith("-00")


def test_a_later_version_may_have_more_fields() -> None:
    assert begin_trace(f"01-{TRACE}-{PARENT}-01-what-the-future-brings", 1.0, 1).trace_id == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "", "x", f"00-{TRACE}-{PARENT}", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01", f"00-{TRACE}-{PARENT}-0g",
    ],
)  # fmt: skip
def test_an_invalid_header_begins_a_trace(header: str) -> None:
    trace = begin_trace(header, 1.0, random.Random(1).getrandbits(ID_BITS))

    assert trace.parent_id == ""
    assert trace.trace_id != TRACE
    assert (len(trace.trace_id), len(trace.span_id)) == (32, 16)


def test_a_share_of_the_traces_is_sampled() -> None:
    rng = random.Random(2)
    sampled = sum(begin_trace("", 0.25, rng.getrandbits(ID_BITS)).is_sampled for _ in range(2000))

    assert 400 < sampled < 600
    assert not begin_trace("", 0.0, 2**ID_BITS - 1).is_sampled
    assert is_sampled("f" * 32, 1.0)


def test_all_parts_of_a_daemon_find_the_same_trace_of_a_run() -> None:
    assert trace_of_run("run_1") == trace_of_run("run_1") != trace_of_run("run_2")
