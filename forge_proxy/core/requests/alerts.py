"""Whether a model got worse: the fault rates of its tools in the last day, compared with their own past. Pure.

The test is Fisher's exact test, one-sided: it holds for rare faults and small samples, where a normal approximation
does not. Calls are not independent, as those of one conversation tend to fail together. The variation of the past days
is therefore measured (Pearson's statistic by its degrees of freedom), and both samples are divided by it, as for
quasi-binomial counts. All tools are tested at once, so Holm's procedure bounds the probability of any false alert.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, lgamma

from forge_proxy.core.rates import Rate
from forge_proxy.core.requests.ledger import UNKNOWN_TOOL
from forge_proxy.core.requests.stored import HOUR

WINDOW_HOURS = 24
"""Hours that are compared with the past."""
PAST_WINDOWS = 28
"""As many such periods before them."""
LEVEL = 0.001
"""Probability of a false alert at one check, for all tools together: with a check every hour 0.024 a day at most."""
MIN_RECENT, MIN_PAST = 50, 200
"""Calls that are needed."""
MIN_PAST_WINDOWS = 3
"""Periods with calls that are needed to measure how much the rate varies."""
MIN_INCREASE = 0.05
MIN_FACTOR = 1.5
"""Smaller changes are not reported, however certain they are."""
_WITHOUT_NAME = ("", UNKNOWN_TOOL)
"""Responses without a call and calls of invented tools are all faults: their share of the calls of the model counts."""


@dataclass(frozen=True, slots=True)
class CallWindow:
    """The calls of one tool in one period. `age` is 0 for the latest one."""

    age: int
    model: str
    tool: str
    calls: int
    faults: int


@dataclass(frozen=True, slots=True)
class LedgerAlert:
    """A tool of a model whose fault rate is above its own past."""

    model: str
    tool: str
    """As in `LedgerKey`."""
    recent: Rate
    past: Rate
    p_value: float
    """Probability of such a rate without a change, corrected for the number of tools."""


def hours_to_compare(now: float) -> tuple[int, int]:
    """Return the first and the last hour that are compared at this time, counted since 1970."""
    last = int(now // HOUR)
    return last - WINDOW_HOURS * (PAST_WINDOWS + 1) + 1, last


def find_alerts(windows: Iterable[CallWindow]) -> list[LedgerAlert]:
    """Return the alerts, the most certain first."""
    tested: list[LedgerAlert] = []
    for (model, tool), by_age in _collect(windows).items():
        recent = by_age.pop(0, Rate(0, 0))
        past = Rate(sum(one.hits for one in by_age.values()), sum(one.total for one in by_age.values()))
        if recent.total < MIN_RECENT or past.total < MIN_PAST or len(by_age) < MIN_PAST_WINDOWS:
            continue
        dispersion = measure_dispersion(list(by_age.values()))
        tested.append(LedgerAlert(model, tool, recent, past, _test(recent, past, dispersion)))
    return [alert for alert in _correct(tested) if alert.p_value < LEVEL and _is_large(alert)]


def measure_dispersion(periods: Sequence[Rate]) -> float:
    """Return how many times more the rate varies between periods than that of independent calls would; 1 at least."""
    total = sum(one.total for one in periods)
    share = sum(one.hits for one in periods) / total
    if not 0 < share < 1 or len(periods) < 2:
        return 1.0
    statistic = sum((one.hits - one.total * share) ** 2 / (one.total * share * (1 - share)) for one in periods)
    return max(1.0, statistic / (len(periods) - 1))


def compute_p_value(recent: Rate, past: Rate) -> float:
    """Return the p-value of Fisher's exact test that the recent rate is not above the past one; 1 if it is not."""
    if recent.hits * past.total <= past.hits * recent.total:
        return 1.0
    hits, total = recent.hits + past.hits, recent.total + past.total
    most = min(hits, recent.total)
    term = exp(
        _log_choose(hits, recent.hits)
        + _log_choose(total - hits, recent.total - recent.hits)
        - _log_choose(total, recent.total)
    )
    p_value = 0.0
    for count in range(recent.hits, most + 1):
        p_value += term
        if term < p_value * 1e-12:
            break
        # The next term of the hypergeometric distribution, from this one.
        others = recent.total - count
        term *= (hits - count) * others / ((count + 1) * (total - hits - others + 1))
    return min(1.0, p_value)


def _test(recent: Rate, past: Rate, dispersion: float) -> float:
    """Return the p-value, with the samples that independent calls of the same variation would be."""
    return compute_p_value(_shrink(recent, dispersion), _shrink(past, dispersion))


def _shrink(rate: Rate, divisor: float) -> Rate:
    total = max(1, round(rate.total / divisor))
    return Rate(min(total, round(rate.hits / divisor)), total)


def _correct(tested: Sequence[LedgerAlert]) -> list[LedgerAlert]:
    """Return the alerts with p-values by Holm (1979), the smallest first."""
    corrected: list[LedgerAlert] = []
    largest = 0.0
    for rank, alert in enumerate(sorted(tested, key=lambda one: one.p_value)):
        largest = max(largest, min(1.0, alert.p_value * (len(tested) - rank)))
        corrected.append(LedgerAlert(alert.model, alert.tool, alert.recent, alert.past, largest))
    return corrected


def _is_large(alert: LedgerAlert) -> bool:
    recent, past = alert.recent.hits / alert.recent.total, alert.past.hits / alert.past.total
    return recent >= past + MIN_INCREASE and recent >= MIN_FACTOR * past


def _collect(windows: Iterable[CallWindow]) -> Mapping[tuple[str, str], dict[int, Rate]]:
    """Return the rates of each tool by the age of the period."""
    listed = list(windows)
    of_model: dict[tuple[str, int], int] = defaultdict(int)
    for one in listed:
        of_model[one.model, one.age] += one.calls
    rates: dict[tuple[str, str], dict[int, Rate]] = defaultdict(dict)
    for one in listed:
        total = of_model[one.model, one.age] if one.tool in _WITHOUT_NAME else one.calls
        rates[one.model, one.tool][one.age] = Rate(one.faults, total)
    for (model, tool), by_age in rates.items():
        if tool in _WITHOUT_NAME:  # periods without such a fault are missing
            for (name, age), calls in of_model.items():
                if name == model:
                    by_age.setdefault(age, Rate(0, calls))
    return rates


def _log_choose(of: int, chosen: int) -> float:
    return lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)
