"""The watch of the ledger: each model that got worse is reported once, until it is better."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
import structlog
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from forge_proxy.core.requests.alerts import CallWindow
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.engine.events import Event, FaultRateRaised, FaultRateSettled, RequestFailed
from forge_proxy.telemetry import ledger_watch
from forge_proxy.telemetry.ledger_watch import LedgerWatch
from forge_proxy.telemetry.log_events import to_log_line
from tests.core.requests.test_alerts import windows
from tests.fakes.records import record_with
from tests.telemetry.test_request_writer import until

USUAL, WORSE = windows([0.05] * 11), windows([0.3, *[0.05] * 10])


class Ledger:
    """A ledger with these windows."""

    def __init__(self) -> None:
        self.found: Sequence[CallWindow] | Exception = USUAL
        self.reads = 0

    async def call_windows(self, first: int, last: int) -> Sequence[CallWindow]:
        self.reads += 1
        assert last == 10
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def watch(ledger: Ledger, heard: list[Event], lines: LogCapture | None = None) -> LedgerWatch:
    async def open_ledger() -> Ledger:
        return ledger

    log: FilteringBoundLogger = structlog.wrap_logger(None, [lines or LogCapture()], structlog.stdlib.BoundLogger)
    return LedgerWatch(open_ledger, heard.append, log, lambda: 36_001.0)


async def test_a_model_that_got_worse_is_reported_once_until_it_is_better(ledger: Ledger) -> None:
    heard: list[Event] = []
    watching = watch(ledger, heard)
    for found in (USUAL, WORSE, WORSE, USUAL, USUAL, WORSE):
        ledger.found = found
        await watching.check()

    first, settled, again = heard
    assert isinstance(first, FaultRateRaised)
    assert settled == FaultRateSettled("m", "read")
    assert isinstance(again, FaultRateRaised)
    line = to_log_line(first)
    assert (line.event, line.level) == ("fault rate above its past", "warning")
    assert (line.fields["model"], line.fields["tool"], line.fields["rate"], line.fields["past_rate"]) == (
        "m", "read", 0.3, 0.05,
    )  # fmt: skip
    assert to_log_line(settled).event == "fault rate as before"


async def test_the_ledger_is_read_only_after_requests_and_faults_do_not_end_the_watch(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_watch, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(ledger_watch, "_SECONDS", 0.0)
    lines = LogCapture()
    watching = watch(ledger, [], lines)
    running = asyncio.create_task(watching.run())
    await asyncio.sleep(0.02)
    assert ledger.reads == 0

    for number, found in enumerate((StoreUnavailable("locked"), ValueError("a bug"), USUAL), 1):
        ledger.found = found
        watching(RequestFailed(record_with()))
        await until(lambda number=number: ledger.reads == number)
    await asyncio.sleep(0.02)

    assert ledger.reads == 3
    assert [line["event"] for line in lines.entries] == ["ledger not compared"]
    running.cancel()
