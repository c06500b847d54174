"""The record of a request on a clock of the test: queue, first output, attempts, and requests that end early."""

from __future__ import annotations

import pytest

from forge_proxy.core.requests.records import TokenCounts
from forge_proxy.engine.request_recorder import RequestRecorder


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> RequestRecorder:
    return RequestRecorder(clock, "r1", "coder")


def test_the_first_output_counts_from_the_arrival(clock: Clock, recorder: RequestRecorder) -> None:
    for clock.time in (103.0, 105.0):
        recorder.mark_output()

    assert recorder.finish_abandoned(1.5).first_output == 3.0


def test_a_disconnected_client_ends_the_open_attempt(clock: Clock, recorder: RequestRecorder) -> None:
    recorder.begin_exchange()
    clock.time = 104.0

    record = recorder.finish_abandoned(1.5)

    assert (record.result, record.queued, record.seconds, record.backend_seconds) == ("abandoned", 1.5, 4.0, 4.0)
    assert [(attempt.number, attempt.seconds, attempt.fault) for attempt in record.attempts] == [(1, 4.0, None)]
    assert (record.error, record.first_output) == ("", None)


def test_overlapping_drafts_are_one_attempt_from_the_first_to_the_last(clock: Clock, recorder: RequestRecorder) -> None:
    recorder.begin_exchange()
    clock.time = 101.0
    recorder.begin_exchange()
    clock.time = 104.0
    recorder.end_exchange({"prompt_tokens": 7, "completion_tokens": 2})
    clock.time = 106.0
    recorder.end_exchange({"prompt_tokens": 7, "completion_tokens": 3})
    recorder.end_exchange({"prompt_tokens": 1_000})  # reported after the end: it does not count
    clock.time = 110.0

    record = recorder.finish_failed("the model server failed", 0.0)

    assert (record.backend_seconds, record.tokens) == (6.0, TokenCounts(prompt=14, completion=5))
    assert (len(record.attempts), record.error) == (1, "the model server failed")


def test_each_attempt_has_its_own_time_and_tokens(clock: Clock, recorder: RequestRecorder) -> None:
    recorder.begin_exchange()
    clock.time = 102.0
    recorder.end_exchange({"completion_tokens": 9})
    recorder.end_attempt("unknown_tool", "get_wether", "no such tool")
    clock.time = 103.0
    recorder.begin_exchange()
    clock.time = 107.0
    recorder.end_exchange({"completion_tokens": 4})

    record = recorder.finish_failed("x", 0.0)

    assert [(one.number, one.fault, one.seconds, one.tokens.completion) for one in record.attempts] == [
        (1, "unknown_tool", 2.0, 9),
        (2, None, 4.0, 4),
    ]
    assert (record.retry_tokens, record.overhead) == (9, 1.0)


def test_a_relayed_request_has_the_model_that_its_client_named(recorder: RequestRecorder) -> None:
    assert (recorder.finish_abandoned(0.0).model, recorder.finish_abandoned(0.0).tools) == ("coder", 0)
