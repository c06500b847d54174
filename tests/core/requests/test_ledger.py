"""What one request adds to the reliability ledger, and the sentence about a period."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.requests.guardrail_effect import describe_effect
from forge_proxy.core.requests.ledger import LedgerCounts, LedgerKey, RequestCounts, count_calls, count_request
from forge_proxy.core.requests.records import AttemptRecord, CallRecord, RequestRecord, TokenCounts
from tests.fakes.records import record_with

DAY = 86400


def rows(record: RequestRecord) -> dict[tuple[str, str], LedgerCounts]:
    return {(key.tool, key.fault): counts for key, counts in count_calls(record, "m", "Q8_0").items()}


def attempt(fault: str | None, tool: str = "", tokens: int = 100) -> AttemptRecord:
    return AttemptRecord(1, fault, tool, "", 0.5, TokenCounts(tokens, 0, 10))


@pytest.mark.parametrize(
    ("outcome", "fault", "counts"),
    [
        (Outcome.CLEAN, "", LedgerCounts(calls=1, clean=1)),
        (Outcome.RETRIED, "", LedgerCounts(calls=1, clean=1)),
        (Outcome.RESCUED, "call_in_text", LedgerCounts(calls=1, repaired=1)),
        (Outcome.REPAIRED, "repairable_arguments", LedgerCounts(calls=1, repaired=1)),
    ],
)
def test_a_delivered_call(outcome: Outcome, fault: str, counts: LedgerCounts) -> None:
    record = record_with(calls=(CallRecord("search", outcome),))

    assert rows(record) == {("search", fault): counts}


def test_calls_to_one_tool_are_added_up() -> None:
    record = record_with(calls=(CallRecord("search", Outcome.CLEAN),) * 3)

    assert count_calls(record, "m", "Q8_0") == {LedgerKey("m", "Q8_0", "search", ""): LedgerCounts(calls=3, clean=3)}


def test_attempts_of_a_request_that_ended_well_were_retried() -> None:
    attempts = (attempt("bad_arguments", "search"), attempt("text"), attempt(None, tokens=500))
    record = record_with(result="retried", attempts=attempts, calls=(CallRecord("search", Outcome.RETRIED),))

    assert rows(record) == {
        ("search", "bad_arguments"): LedgerCounts(calls=1, retried=1, tokens=110, seconds=0.5),
        ("", "text"): LedgerCounts(calls=1, retried=1, tokens=110, seconds=0.5),
        ("search", ""): LedgerCounts(calls=1, clean=1),
    }


@pytest.mark.parametrize("result", ["exhausted", "failed", "abandoned"])
def test_attempts_of_other_requests_failed(result: str) -> None:
    record = record_with(result=result, attempts=(attempt("empty"),), calls=(CallRecord("search", Outcome.EXHAUSTED),))

    assert rows(record) == {("", "empty"): LedgerCounts(calls=1, failed=1, tokens=110, seconds=0.5)}


def test_names_that_the_model_invented_share_a_row() -> None:
    attempts = tuple(attempt("unknown_tool", f"invented{number}") for number in range(5))

    assert set(rows(record_with(result="retried", attempts=attempts))) == {("(unknown)", "unknown_tool")}


@pytest.mark.parametrize(
    ("result", "field"),
    [
        ("clean", "clean"),
        ("rescued", "repaired"),
        ("repaired", "repaired"),
        ("retried", "retried"),
        ("exhausted", "exhausted"),
        ("failed", "errors"),
        ("abandoned", "abandoned"),
    ],
)
def test_a_request_counts_by_how_it_ended(result: str, field: str) -> None:
    attempts = (attempt("text"), attempt(None))
    counts = count_request(record_with(result=result, attempts=attempts))

    expected = RequestCounts(requests=1, tokens=220, retry_tokens=110, retry_seconds=0.5)
    assert counts == expected + RequestCounts(**{field: 1})


def test_a_request_without_tools_only_counts_as_a_request() -> None:
    counts = count_request(record_with(result="passthrough"))

    assert (counts.requests, counts.judged) == (1, 0)


def test_the_sentence_about_a_week_without_tools() -> None:
    sentence = describe_effect(RequestCounts(requests=5), 7 * DAY)

    assert sentence == "No request with tools was completed in the last 7 days."


def test_the_sentence_about_an_hour_without_faults() -> None:
    sentence = describe_effect(RequestCounts(clean=1), 3600)

    assert sentence == (
        "In the last hour the guardrails recovered none of 1 request with tools;"
        " no request ended without a valid response."
    )


def test_the_sentence_about_a_day_with_all_outcomes() -> None:
    counts = RequestCounts(clean=1000, repaired=60, retried=140, exhausted=1, tokens=2000, retry_tokens=100)

    assert describe_effect(counts, DAY) == (
        "In the last 24 hours the guardrails recovered 200 of 1,201 requests with tools (16.7 %), 60 of them without"
        " a retry, for 5.0 % of all tokens; 1 request ended without a valid response."
    )
