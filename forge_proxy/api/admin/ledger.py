"""`/admin/v1/ledger`: the faults per model and tool, how they were resolved, and the effect of the guardrails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Protocol

from fastapi import Query
from pydantic import BaseModel, Field

from forge_proxy.core.rates import Rate
from forge_proxy.core.requests.alerts import CallWindow, LedgerAlert, find_alerts, hours_to_compare
from forge_proxy.core.requests.guardrail_effect import describe_effect
from forge_proxy.core.requests.ledger import LedgerCounts, RequestCounts
from forge_proxy.core.requests.stored import DURATION_BOUNDS, DurationClass, LedgerRow, RequestHour

_DAY = 86400.0


class LedgerReader(Protocol):
    """The stored counts. `since` and `until` are seconds since 1970. Every method raises `StoreUnavailable`."""

    async def list_calls(self, since: float, until: float, model: str | None) -> Sequence[LedgerRow]:
        """Return the counts of each model, tool and fault, added up over the hours that overlap the period."""
        ...

    async def list_hours(self, since: float, until: float, model: str | None) -> Sequence[RequestHour]:
        """Return how the requests of each hour ended, oldest first."""
        ...

    async def list_durations(self, since: float, until: float, model: str | None) -> Sequence[DurationClass]:
        """Return the durations of requests by classes."""
        ...

    async def call_windows(self, first: int, last: int) -> Sequence[CallWindow]:
        """Return the calls of each model and tool in the periods up to an hour."""
        ...


class RateInfo(BaseModel):
    """A proportion from 0 to 1 with its 95 % interval. Null without observations."""

    value: float | None
    low: float | None
    high: float | None


class LedgerRowInfo(BaseModel):
    """What happened to the calls of one tool with one fault."""

    model: str
    quantization: str
    tool: str = Field(description="Empty for responses without a call, `(unknown)` for names that the model invented.")
    fault: str = Field(description="Empty for calls that were valid as the model wrote them.")
    calls: int
    clean: int
    repaired: int = Field(description="Recovered without a retry.")
    retried: int = Field(description="Attempts after which a retry led to a valid response.")
    failed: int = Field(description="Attempts whose request did not end with a valid response.")
    tokens: int = Field(description="Tokens of the attempts that were retried.")
    seconds: float = Field(description="Time that the model server took for those attempts.")
    share: RateInfo = Field(description="Share of this fault among all calls of this tool and model.")


class RequestCountsInfo(BaseModel):
    """How requests ended."""

    requests: int = Field(description="All requests, those without tools included.")
    clean: int = Field(description="Valid at the first attempt, as the model wrote it.")
    repaired: int = Field(description="Valid after a call was recovered or repaired without a retry.")
    retried: int = Field(description="Valid after one or more retries.")
    exhausted: int = Field(description="Not valid after the last retry.")
    errors: int
    abandoned: int = Field(description="The client disconnected.")
    tokens: int
    retry_tokens: int
    retry_seconds: float


class LedgerHourInfo(RequestCountsInfo):
    """How the requests of one hour and model ended."""

    starts_at: int = Field(description="Seconds since 1970.")
    model: str
    quantization: str


class DurationClassInfo(BaseModel):
    """How many requests had a duration of one class."""

    model: str
    measure: str = Field(description="`total`, or `first_output`: until the first piece of the response.")
    up_to: float | None = Field(description="Upper bound in seconds; null for the last class.")
    count: int


class LedgerAlertInfo(BaseModel):
    """A tool of a model whose fault rate in the last 24 hours is above its own past."""

    model: str
    tool: str = Field(description="As in `rows`.")
    recent: RateInfo
    recent_calls: int
    past: RateInfo = Field(description="The rate in the 28 days before.")
    past_calls: int
    p_value: float = Field(description="Fisher's exact test, one-sided, corrected for the number of tools by Holm.")
    summary: str


class LedgerAlerts(BaseModel):
    """The models that got worse."""

    data: list[LedgerAlertInfo]


class LedgerInfo(BaseModel):
    """The guardrail ledger: requests, faults and repairs between `since` and `until`."""

    since: float
    until: float
    summary: str = Field(description="One sentence about the effect of the guardrails.")
    alerts: list[LedgerAlertInfo] = Field(description="Models that got worse, whatever the period.")
    requests: RequestCountsInfo
    valid_without: RateInfo = Field(description="Share of the judged requests that were valid as the model wrote them.")
    valid_with: RateInfo = Field(description="Share of the judged requests that ended with a valid response.")
    rows: list[LedgerRowInfo]
    hours: list[LedgerHourInfo]
    durations: list[DurationClassInfo] = Field(description="Classes without a request are omitted.")
    duration_bounds: list[float] = Field(description="The upper bounds of all classes but the last.")


class LedgerEndpoints:
    """The endpoint of `/ledger`."""

    def __init__(
        self,
        open_ledger: Callable[[], Awaitable[LedgerReader]],
        wall_clock: Callable[[], float] = time.time,
        *,
        has_alerts: bool = True,
    ) -> None:
        """`has_alerts`: `ledger.alerts`."""
        self._open = open_ledger
        self._has_alerts = has_alerts
        self._wall_clock = wall_clock

    async def read(
        self,
        since: Annotated[float | None, Query(ge=0, description="Default: seven days ago.")] = None,
        until: Annotated[float | None, Query(ge=0, description="Default: now.")] = None,
        model: Annotated[str | None, Query(max_length=256, description="Only this model.")] = None,
    ) -> LedgerInfo:
        """Show the ledger of the hours that overlap a period. Times are seconds since 1970."""
        until = self._wall_clock() if until is None else until
        since = max(0.0, until - 7 * _DAY) if since is None else since
        model = model if model is None or model.isprintable() else ""
        ledger = await self._open()
        hours = await ledger.list_hours(since, until, model)
        rows, durations = await ledger.list_calls(since, until, model), await ledger.list_durations(since, until, model)
        total = sum((hour.counts for hour in hours), RequestCounts())
        return LedgerInfo(
            since=since,
            until=until,
            summary=describe_effect(total, until - since),
            alerts=await self._find_alerts(ledger),
            requests=RequestCountsInfo.model_validate(asdict(total)),
            valid_without=_to_rate(total.clean, total.judged),
            valid_with=_to_rate(total.clean + total.recovered, total.judged),
            rows=_to_rows(rows),
            hours=[_to_hour(hour) for hour in hours],
            durations=[_to_class(one) for one in durations],
            duration_bounds=list(DURATION_BOUNDS),
        )

    async def alerts(self) -> LedgerAlerts:
        """Show the models that got worse: fault rates of the last 24 hours above those of the 28 days before."""
        return LedgerAlerts(data=await self._find_alerts(await self._open()))

    async def _find_alerts(self, ledger: LedgerReader) -> list[LedgerAlertInfo]:
        if not self._has_alerts:
            return []
        windows = await ledger.call_windows(*hours_to_compare(self._wall_clock()))
        return [_to_alert(alert) for alert in await asyncio.to_thread(find_alerts, windows)]


def _to_alert(alert: LedgerAlert) -> LedgerAlertInfo:
    recent, past = alert.recent, alert.past
    where = f"{alert.model}, {alert.tool or 'responses without a call'}"
    return LedgerAlertInfo(
        model=alert.model,
        tool=alert.tool,
        recent=_to_rate(recent.hits, recent.total),
        recent_calls=recent.total,
        past=_to_rate(past.hits, past.total),
        past_calls=past.total,
        p_value=alert.p_value,
        summary=f"{where}: {_percent(recent)} of the calls of the last 24 hours had a fault, {_percent(past)} before.",
    )


def _percent(rate: Rate) -> str:
    return f"{100 * (rate.value or 0):.1f} %"


def _to_rows(rows: Sequence[LedgerRow]) -> list[LedgerRowInfo]:
    totals: dict[tuple[str, str, str], LedgerCounts] = {}
    for row in rows:
        of_tool = (row.key.model, row.key.quantization, row.key.tool)
        totals[of_tool] = totals.get(of_tool, LedgerCounts()) + row.counts
    ordered = sorted(rows, key=lambda row: (row.key.model, row.key.quantization, row.key.tool, row.key.fault))
    return [
        LedgerRowInfo(
            **asdict(row.key),
            **asdict(row.counts),
            share=_to_rate(row.counts.calls, totals[row.key.model, row.key.quantization, row.key.tool].calls),
        )
        for row in ordered
    ]


def _to_hour(hour: RequestHour) -> LedgerHourInfo:
    return LedgerHourInfo(
        starts_at=hour.starts_at, model=hour.model, quantization=hour.quantization, **asdict(hour.counts)
    )


def _to_class(one: DurationClass) -> DurationClassInfo:
    bound = DURATION_BOUNDS[one.bucket] if one.bucket < len(DURATION_BOUNDS) else None
    return DurationClassInfo(model=one.model, measure=one.measure, up_to=bound, count=one.count)


def _to_rate(hits: int, total: int) -> RateInfo:
    rate = Rate(hits, total)
    interval = rate.interval
    return RateInfo(value=rate.value, low=interval.low if interval else None, high=interval.high if interval else None)
