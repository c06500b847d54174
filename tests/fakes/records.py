"""Records of requests, for tests of their readers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.requests.records import AttemptRecord, RequestOrigin, RequestRecord, TokenCounts

CLEAN = RequestRecord(
    request_id="r",
    origin=RequestOrigin("chat_completions", "laptop", "aider/0.86"),
    model="m",
    served="m",
    is_streamed=False,
    tools=1,
    result="clean",
    seconds=0.5,
    queued=0.1,
    first_output=0.3,
    backend_seconds=0.35,
    attempts=(AttemptRecord(1, seconds=0.35, tokens=TokenCounts(100, 80, 20)),),
)


def record_with(**fields: Any) -> RequestRecord:
    """Return the record of a request that was answered at the first attempt, with other fields."""
    return replace(CLEAN, **fields)


def make_record(report: Report) -> RequestRecord:
    """Return the record of a request that ended with this report."""
    return record_with(result=report.outcome.value, interventions=report.descriptions)
