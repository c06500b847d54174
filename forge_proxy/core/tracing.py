"""The position of a request in a distributed trace, by the W3C recommendation Trace Context. Pure.

The ids of attempts follow from that of their request: the engine needs no randomness, and the exporter of the spans
later derives the ids that were sent to the model server.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_NO_TRACE, _NO_SPAN, _INVALID_VERSION = "0" * 32, "0" * 16, "ff"
_SAMPLED = 1
ID_BITS = 192
"""Random bits that `begin_trace` needs."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The span of a request. Ids are hexadecimal."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    """The span of the client; empty if the trace begins here."""
    is_sampled: bool = True

    def child_span(self, name: str) -> str:
        """Return the id of a span within the request, such as `attempt 1`."""
        return hashlib.blake2b(f"{self.trace_id}{self.span_id}{name}".encode(), digest_size=8).hexdigest()

    def attempt_span(self, number: int) -> str:
        """Return the id of the span of an attempt."""
        return self.child_span(f"attempt {number}")

    def traceparent(self, number: int) -> str:
        """Return the header for the model server in an attempt."""
        return f"00-{self.trace_id}-{self.attempt_span(number)}-{int(self.is_sampled):02x}"


def begin_trace(traceparent: str, sample_ratio: float, random_bits: int) -> TraceContext:
    """Continue the trace of a client's `traceparent` header, or begin one if it has none or an invalid one.

    The client decides whether its trace is sampled; of others `sample_ratio` is, by their ids.
    """
    ids = f"{random_bits % 2**ID_BITS:0{ID_BITS // 4}x}"
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found and found[1] != _INVALID_VERSION and found[2] != _NO_TRACE and found[3] != _NO_SPAN:
        return TraceContext(found[2], ids[32:], found[3], bool(int(found[4], 16) & _SAMPLED))
    return TraceContext(ids[:32], ids[32:], "", is_sampled(ids[:32], sample_ratio))


def is_sampled(trace_id: str, sample_ratio: float) -> bool:
    """Whether a trace that begins here is sampled: by its id, so that all parts of it agree."""
    return int(trace_id[16:], 16) < sample_ratio * 2**64


def trace_of_run(run_id: str) -> TraceContext:
    """Return the trace of a run, whose id is all that the parts of a daemon know of it, also after a restart."""
    digest = hashlib.blake2b(run_id.encode(), digest_size=24).hexdigest()
    return TraceContext(digest[:32], digest[32:])


def begin_model_call(run_id: str, sample_ratio: float, random_bits: int) -> TraceContext:
    """Return the position of a model call within the trace of its run."""
    run = trace_of_run(run_id)
    call = begin_trace("", sample_ratio, random_bits)
    return TraceContext(run.trace_id, call.span_id, run.span_id, is_sampled(run.trace_id, sample_ratio))
