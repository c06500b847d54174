"""Compares two configurations run by run: the difference, its interval and its significance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forge_proxy.core.rates import Interval, PairedRuns, Rate
from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.reports.table import format_percent, format_table

HEAD = ("scenario", "pairs", "A", "B", "B - A", "95 %", "only A", "only B", "p")


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """The runs of one scenario, or of all, in both configurations."""

    name: str
    pairs: PairedRuns

    @property
    def first(self) -> Rate:
        """The score of the first configuration."""
        return Rate(self.pairs.both + self.pairs.first, self.pairs.total)

    @property
    def second(self) -> Rate:
        """The score of the second configuration."""
        return Rate(self.pairs.both + self.pairs.second, self.pairs.total)


def compare_runs(first: Iterable[RunRecord], second: Iterable[RunRecord]) -> Sequence[ComparedRuns]:
    """Return the comparison of each common scenario, and of all scenarios at the end; empty without common runs.

    Runs are paired by scenario, number and seed, because the data of a scenario can depend on the number.
    """
    others = {(record.scenario, record.run, record.seed): record.is_correct for record in second}
    by_scenario: dict[str, list[tuple[bool, bool]]] = {}
    for record in first:
        if (key := (record.scenario, record.run, record.seed)) in others:
            by_scenario.setdefault(record.scenario, []).append((record.is_correct, others[key]))
    if not by_scenario:
        return ()
    rows = [ComparedRuns(name, PairedRuns.count(outcomes)) for name, outcomes in by_scenario.items()]
    return (
        *rows,
        ComparedRuns("all", PairedRuns.count(pair for outcomes in by_scenario.values() for pair in outcomes)),
    )


def comparison_report(rows: Sequence[ComparedRuns], first: str, second: str) -> str:
    """Return the comparison as a table. `first` and `second` name the configurations."""
    if not rows:
        return "nothing to compare: no scenario was run both ways with the same seed"
    table = format_table(HEAD, [format_row(row) for row in rows])
    return f"A: {first}\nB: {second}\n\n{table}"


def format_row(row: ComparedRuns) -> tuple[str, ...]:
    """Return the cells of a row in the order of `HEAD`."""
    pairs = row.pairs
    return (
        row.name,
        str(pairs.total),
        format_percent(row.first),
        format_percent(row.second),
        format_points(pairs.difference),
        format_span(pairs.interval),
        str(pairs.first),
        str(pairs.second),
        f"{pairs.p:.2g}",
    )


def format_points(difference: float | None) -> str:
    """Format a difference of proportions in percentage points."""
    return "–" if difference is None else f"{100 * difference:+.0f}"


def format_span(interval: Interval | None) -> str:
    """Format the interval of a difference in percentage points."""
    return "–" if interval is None else f"{100 * interval.low:+.0f} to {100 * interval.high:+.0f}"
