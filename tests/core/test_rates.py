"""Intervals and tests against published values, and against exact enumeration."""

from __future__ import annotations

from math import comb

import pytest

from forge_proxy.core.rates import PairedRuns, Rate


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [  # Newcombe 1998, Two-sided confidence intervals for the single proportion, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilsons_interval(hits: int, of: int, low: float, high: float) -> None:
    interval = Rate(hits, of).interval

    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_of_nothing_there_is_no_rate() -> None:
    assert (Rate(0, 0).value, Rate(0, 0).interval, PairedRuns().difference, PairedRuns().interval) == (
        None,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [  # the binomial tail, by hand: 2 / 2**5; 2 * (1 + 13 + 78 + 286) / 2**13
        (0, 5, 0.0625),
        (10, 3, 0.0922852),
        (6, 6, 1.0),
        (0, 0, 1.0),
        (1, 0, 1.0),
    ],
)
def test_mcnemars_exact_test(first: int, second: int, p: float) -> None:
    assert PairedRuns(both=50, first=first, second=second, neither=7).p == pytest.approx(p, abs=1e-6)
    assert PairedRuns(both=0, first=second, second=first, neither=0).p == pytest.approx(p, abs=1e-6)


def test_pairs_are_counted_by_their_outcomes() -> None:
    pairs = PairedRuns.count([(True, True), (True, False), (False, True), (False, True), (False, False)])

    assert pairs == PairedRuns(both=1, first=1, second=2, neither=1)
    assert pairs.difference == pytest.approx(0.2)


@pytest.mark.parametrize(("first", "second", "n"), [(0.05, 0.25, 20), (0.0, 0.1, 50), (0.3, 0.3, 10)])
def test_the_interval_of_a_difference_holds_the_truth_about_as_often_as_it_says(
    first: float, second: float, n: int
) -> None:
    """Over all outcomes of n pairs, weighted by their probability."""
    held = 0.0
    for a in range(n + 1):
        for b in range(n + 1 - a):
            rest = n - a - b
            chance = comb(n, a) * comb(n - a, b) * first**a * second**b * (1 - first - second) ** rest
            interval = PairedRuns(both=rest, first=a, second=b).interval
            assert interval is not None
            held += chance * (interval.low <= second - first <= interval.high)

    assert 0.93 < held <= 1
