"""Confidence intervals of rates and tests of their difference. Pure; standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, sqrt

Z = 1.959964
"""Number of standard deviations around the mean that contain 95 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval from `low` to `high`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A proportion: `hits` out of `total`."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        """The proportion from 0 to 1; None if `total` is 0."""
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's score interval (Wilson 1927), which is also valid for few runs and proportions near 0 and 1."""
        if not self.total:
            return None
        share, n = self.hits / self.total, self.total
        scale = 1 + Z * Z / n
        middle = (share + Z * Z / (2 * n)) / scale
        half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / scale
        # For 0 and 1 the formula is exact except for rounding errors.
        return Interval(0.0 if not self.hits else middle - half, 1.0 if self.hits == n else middle + half)


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """The same runs in two configurations: counts of both correct, only the first, only the second, neither."""

    both: int = 0
    first: int = 0
    second: int = 0
    neither: int = 0

    @classmethod
    def count(cls, outcomes: Iterable[tuple[bool, bool]]) -> PairedRuns:
        """Count pairs of outcomes."""
        counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
        for pair in outcomes:
            counts[pair] += 1
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def total(self) -> int:
        """Number of pairs."""
        return self.both + self.first + self.second + self.neither

    @property
    def p(self) -> float:
        """McNemar's exact test, two-sided: the probability of a split at least this uneven among the runs that differ,
        if the configurations are equally good.
        """
        differing = self.first + self.second
        fewer = min(self.first, self.second)
        tail = sum(comb(differing, k) for k in range(fewer + 1))
        return min(1.0, 2 * tail / 2**differing)

    @property
    def difference(self) -> float | None:
        """The second proportion minus the first; None without pairs."""
        return (self.second - self.first) / self.total if self.total else None

    @property
    def interval(self) -> Interval | None:
        """The interval of the difference: Wald's interval for pairs, adjusted by one run added to each count that
        differs (Bonett and Price 2012), which covers 95 % also with few runs.
        """
        if not self.total:
            return None
        n = self.total + 2
        first, second = (self.first + 1) / n, (self.second + 1) / n
        middle = second - first
        half = Z * sqrt((first + second - middle * middle) / n)
        return Interval(max(-1.0, middle - half), min(1.0, middle + half))
