"""Alerts of the reliability ledger: exact where they can be, rare where nothing changed, and there where it did."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.rates import Rate
from forge_proxy.core.requests.alerts import (
    LEVEL,
    MIN_PAST,
    MIN_RECENT,
    PAST_WINDOWS,
    CallWindow,
    compute_p_value,
    find_alerts,
    hours_to_compare,
    measure_dispersion,
)

TOOLS = ("read", "write", "search", "shell")


def exact(recent: Rate, past: Rate) -> float:
    """The p-value by whole numbers."""
    hits, total = recent.hits + past.hits, recent.total + past.total
    ways = sum(
        comb(hits, count) * comb(total - hits, recent.total - count)
        for count in range(recent.hits, min(hits, recent.total) + 1)
    )
    return float(Fraction(ways, comb(total, recent.total)))


@given(st.integers(1, 60), st.integers(1, 200), st.data())
def test_the_p_value_is_that_of_fishers_exact_test(few: int, many: int, data: st.DataObject) -> None:
    recent = Rate(data.draw(st.integers(0, few)), few)
    past = Rate(data.draw(st.integers(0, many)), many)
    if recent.hits * many <= past.hits * few:
        assert compute_p_value(recent, past) == 1
    else:
        assert compute_p_value(recent, past) == pytest.approx(exact(recent, past), rel=1e-6)


def test_the_p_value_of_a_million_calls() -> None:
    assert compute_p_value(Rate(50_600, 1_000_000), Rate(50_000, 1_000_000)) == pytest.approx(0.0266, abs=0.001)
    assert compute_p_value(Rate(900_000, 1_000_000), Rate(1, 1_000_000)) == 0


def windows(rates: list[float], calls: int = 200, tool: str = "read", model: str = "m") -> list[CallWindow]:
    """Windows with these rates, the latest first."""
    return [CallWindow(age, model, tool, calls, round(rate * calls)) for age, rate in enumerate(rates)]


def test_a_rate_that_is_clearly_above_its_past_is_an_alert() -> None:
    (alert,) = find_alerts([*windows([0.3, *[0.05] * 10]), *windows([0.05] * 11, tool="write")])

    assert (alert.model, alert.tool) == ("m", "read")
    assert (alert.recent, alert.past) == (Rate(60, 200), Rate(100, 2000))
    assert alert.p_value < 1e-6


@pytest.mark.parametrize(
    "found",
    [
        windows([0.3, *[0.05] * 10], calls=40),  # too few now
        windows([0.3, 0.05]),  # too few before
        windows([0.3, 0.05, 0.05]),  # too few days
        windows([0.09, *[0.05] * 20], calls=5000),  # certain, and small
        windows([0.8, *[0.6] * 20], calls=5000),  # less than half as much again
        windows([0.0, *[0.3] * 10]),  # better
        windows([0.3, *[0.05, 0.45] * 5]),  # as on other days
        [],
    ],
    ids=["few now", "few before", "few days", "small", "factor", "better", "varies", "nothing"],
)
def test_no_alert(found: list[CallWindow]) -> None:
    assert find_alerts(found) == []


def test_the_level_is_for_all_tools_together() -> None:
    many = [one for number in range(200) for one in windows([0.1] * 11, tool=f"t{number}")]
    borderline = windows([0.19, *[0.1] * 10])
    (alone,) = find_alerts(borderline)

    assert alone.p_value < LEVEL < alone.p_value * 201
    assert find_alerts([*borderline, *many]) == []


def test_responses_without_a_call_are_compared_with_all_calls_of_the_model() -> None:
    calls = windows([0.0] * 11)
    no_call = [CallWindow(age, "m", "", 5, 5) for age in range(1, 11)]
    (alert,) = find_alerts([*calls, *no_call, CallWindow(0, "m", "", 60, 60), *windows([0.5] * 11, model="other")])

    assert alert.tool == ""
    assert (alert.recent, alert.past) == (Rate(60, 260), Rate(50, 2050))
    (first,) = find_alerts([*calls, CallWindow(0, "m", "(unknown)", 60, 60)])
    assert (first.past.hits, first.past.total) == (0, 2000)


def test_dispersion_is_that_of_the_counts() -> None:
    rng = random.Random(3)
    independent = [Rate(count(rng, 400, 0.1), 400) for _ in range(200)]
    clustered = [Rate(4 * count(rng, 100, 0.1), 400) for _ in range(200)]

    assert 1.0 <= measure_dispersion(independent) < 1.35
    assert 3.0 < measure_dispersion(clustered) < 5.2
    assert measure_dispersion([Rate(0, 10), Rate(0, 10)]) == measure_dispersion([Rate(3, 10)]) == 1.0


def count(rng: random.Random, calls: int, rate: float) -> int:
    return sum(rng.random() < rate for _ in range(calls))


def simulate(rng: random.Random, cluster: int, recent: float) -> bool:
    """Whether there is an alert for four tools whose faults come in clusters; the first one has another rate now."""
    found: list[CallWindow] = []
    for tool in TOOLS:
        usual = rng.uniform(0.01, 0.3)
        for age in range(PAST_WINDOWS + 1):
            clusters = rng.randint(20, 120) // cluster + 1
            rate = min(0.95, usual + recent) if age == 0 and tool == TOOLS[0] else usual
            found.append(CallWindow(age, "m", tool, clusters * cluster, cluster * count(rng, clusters, rate)))
    return bool(find_alerts(found))


@pytest.mark.parametrize("cluster", [1, 4])
def test_false_alerts_are_rare_and_a_model_that_got_worse_is_found(cluster: int) -> None:
    rng = random.Random(17)
    false_alerts = sum(simulate(rng, cluster, 0.0) for _ in range(300))
    found = sum(simulate(rng, cluster, 0.5) for _ in range(100))

    assert false_alerts <= 3
    assert found >= (60 if cluster == 1 else 25)


def test_the_hours_that_are_compared() -> None:
    first, last = hours_to_compare(3600 * 10_000.5)

    assert (last - first + 1, last) == (24 * (PAST_WINDOWS + 1), 10_000)
    assert MIN_RECENT < MIN_PAST
