"""Compares the reliability ledger with its own past every hour, and reports models that got worse, and better again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from forge_proxy.core.requests.alerts import CallWindow, find_alerts, hours_to_compare
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.engine.events import (
    Event,
    FaultRateRaised,
    FaultRateSettled,
    RequestAbandoned,
    RequestAnswered,
    RequestFailed,
)
from forge_proxy.engine.ports import Observer

_FIRST_SECONDS = 60.0
"""Seconds after the first request: the database opens with it, and a restart should not wait for an alert."""
_SECONDS = 3600.0


class CallWindows(Protocol):
    """The stored counts of calls."""

    async def call_windows(self, first: int, last: int) -> Sequence[CallWindow]:
        """Return the calls of each model and tool in the periods up to an hour. Raises `StoreUnavailable`."""
        ...


class LedgerWatch:
    """A listener of events that looks at the ledger every hour in which there were requests."""

    def __init__(
        self,
        open_ledger: Callable[[], Awaitable[CallWindows]],
        observe: Observer,
        log: FilteringBoundLogger,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._open = open_ledger
        self._observe = observe
        self._log = log
        self._wall_clock = wall_clock
        self._raised: set[tuple[str, str]] = set()
        self._has_requests = asyncio.Event()

    def __call__(self, event: Event, /) -> None:
        """See `engine.ports.Observer`."""
        if isinstance(event, RequestAnswered | RequestFailed | RequestAbandoned):
            self._has_requests.set()

    async def run(self) -> None:
        """Check until it is cancelled."""
        pause = _FIRST_SECONDS
        while True:
            await self._has_requests.wait()
            await asyncio.sleep(pause)
            self._has_requests.clear()
            pause = _SECONDS
            try:
                await self.check()
            except StoreUnavailable:
                pass  # the writer of requests reports it
            except Exception:  # noqa: BLE001  # the next check may succeed
                self._log.exception("ledger not compared")

    async def check(self) -> None:
        """Compare the ledger with its past and report what has changed since the last check."""
        ledger = await self._open()
        windows = await ledger.call_windows(*hours_to_compare(self._wall_clock()))
        alerts = {(one.model, one.tool): one for one in await asyncio.to_thread(find_alerts, windows)}
        for key, alert in alerts.items():
            if key not in self._raised:
                self._observe(FaultRateRaised(alert))
        for model, tool in sorted(self._raised - alerts.keys()):
            self._observe(FaultRateSettled(model, tool))
        self._raised = set(alerts)
