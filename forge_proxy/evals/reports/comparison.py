"""Two configurations run for run: what differs, by how much, and whether that may be chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forge_proxy.evals.rates import Interval, PairedRuns, Rate
from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.reports.table import grid, percent

HEAD = ("scenario", "pairs", "A", "B", "B - A", "95 %", "only A", "only B", "p")


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """The runs of one scenario, or of all, made both ways."""

    name: str
    pairs: PairedRuns

    @property
    def first(self) -> Rate:
        """The score of the first."""
        return Rate(self.pairs.both + self.pairs.first, self.pairs.total)

    @property
    def second(self) -> Rate:
        """The score of the second."""
        return Rate(self.pairs.both + self.pairs.second, self.pairs.total)


def compared(first: Iterable[RunRecord], second: Iterable[RunRecord]) -> Sequence[ComparedRuns]:
    """Each scenario that both were run in, and all together at the end, where there are any. Runs go together that have
    the same scenario, number and seed: the data of a scenario can go by the number, and the model's luck by the seed.
    """
    others = {(record.scenario, record.run, record.seed): record.correct for record in second}
    by_scenario: dict[str, list[tuple[bool, bool]]] = {}
    for record in first:
        if (key := (record.scenario, record.run, record.seed)) in others:
            by_scenario.setdefault(record.scenario, []).append((record.correct, others[key]))
    if not by_scenario:
        return ()
    rows = [ComparedRuns(name, PairedRuns.of(outcomes)) for name, outcomes in by_scenario.items()]
    return (*rows, ComparedRuns("all", PairedRuns.of(pair for outcomes in by_scenario.values() for pair in outcomes)))


def comparison_report(rows: Sequence[ComparedRuns], first: str, second: str) -> str:
    """The comparison as a table. `first` and `second` say what they are."""
    if not rows:
        return "nothing to compare: no scenario was run both ways with the same seed"
    table = grid(HEAD, [cells(row) for row in rows])
    return f"A: {first}\nB: {second}\n\n{table}"


def cells(row: ComparedRuns) -> tuple[str, ...]:
    """The cells of a row, as `HEAD` names them."""
    pairs = row.pairs
    return (
        row.name,
        str(pairs.total),
        percent(row.first),
        percent(row.second),
        points(pairs.difference),
        span(pairs.interval),
        str(pairs.first),
        str(pairs.second),
        f"{pairs.p:.2g}",
    )


def points(difference: float | None) -> str:
    """A difference of shares, in percentage points."""
    return "–" if difference is None else f"{100 * difference:+.0f}"


def span(interval: Interval | None) -> str:
    """An interval of a difference, in percentage points."""
    return "–" if interval is None else f"{100 * interval.low:+.0f} to {100 * interval.high:+.0f}"
