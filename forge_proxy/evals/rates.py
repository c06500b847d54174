"""Confidence intervals of rates and tests of their difference. Pure; standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, sqrt

Z = 1.959964
"""Standard deviations on both sides of the mean that hold 95 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval from `low` to `high`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rate:
    """So many out of so many."""

    hits: int
    of: int

    @property
    def value(self) -> float | None:
        """The share, None of nothing."""
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's score interval (Wilson 1927), which also holds for few runs and for shares near 0 and 1."""
        if not self.of:
            return None
        share, n = self.hits / self.of, self.of
        scale = 1 + Z * Z / n
        middle = (share + Z * Z / (2 * n)) / scale
        half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / scale
        # At the ends the formula comes to 0 and 1 but for the rounding of numbers.
        return Interval(0.0 if not self.hits else middle - half, 1.0 if self.hits == n else middle + half)


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """The same runs made in two ways: how often both were right, the first alone, the second alone, neither."""

    both: int = 0
    first: int = 0
    second: int = 0
    neither: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[tuple[bool, bool]]) -> PairedRuns:
        """Those of the outcomes of each run in both ways."""
        counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
        for pair in outcomes:
            counts[pair] += 1
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    @property
    def total(self) -> int:
        """How many runs."""
        return self.both + self.first + self.second + self.neither

    @property
    def p(self) -> float:
        """McNemar's exact test, two-sided: how likely it is that as many or more of the runs that differ would agree,
        if neither way were better.
        """
        differing = self.first + self.second
        fewer = min(self.first, self.second)
        tail = sum(comb(differing, k) for k in range(fewer + 1))
        return min(1.0, 2 * tail / 2**differing)

    @property
    def difference(self) -> float | None:
        """The second share less the first one, None of nothing."""
        return (self.second - self.first) / self.total if self.total else None

    @property
    def interval(self) -> Interval | None:
        """Of the difference: Wald's interval for pairs with a run added to each kind that differs (Bonett and Price
        2012), which keeps to 95 % where the plain one does not, with few runs.
        """
        if not self.total:
            return None
        n = self.total + 2
        first, second = (self.first + 1) / n, (self.second + 1) / n
        middle = second - first
        half = Z * sqrt((first + second - middle * middle) / n)
        return Interval(max(-1.0, middle - half), min(1.0, middle + half))
