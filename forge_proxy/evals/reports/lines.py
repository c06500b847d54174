"""The lines of a report: one for each configuration, by descending score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from forge_proxy.evals.metrics import Metrics, Price, compute_metrics
from forge_proxy.evals.record import EvalConfiguration, RunRecord, label_configurations


@dataclass(frozen=True, slots=True)
class ReportLine:
    """The runs of one configuration. `done` and `planned` count runs before filtering."""

    label: str
    """Unique among the lines, together with surface and preset."""
    config: EvalConfiguration
    records: Sequence[RunRecord]
    metrics: Metrics
    by_scenario: Mapping[str, Metrics]
    done: int
    planned: int
    price: Price | None = None

    @property
    def is_partial(self) -> bool:
        """Whether runs are missing."""
        return self.done < self.planned


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Selects the runs of a report. An empty field selects all; a run must match one value of each other field."""

    ablations: Sequence[str] = ()
    surfaces: Sequence[str] = ()
    models: Sequence[str] = ()
    scenarios: Sequence[str] = ()
    tags: Sequence[str] = ()
    partial: bool = False
    """Whether to include configurations with missing runs."""
    price: Price | None = None
    """If set, lines have the cost of a run."""

    def matches(self, record: RunRecord) -> bool:
        """Return whether a run is selected."""
        config = record.config
        return (
            (not self.ablations or config.ablation in self.ablations)
            and (not self.surfaces or config.surface in self.surfaces)
            and (not self.models or config.model in self.models or config.label in self.models)
            and (not self.scenarios or record.scenario in self.scenarios)
            and (not self.tags or not set(self.tags).isdisjoint(record.tags))
        )


_ALL = RunFilter(partial=True)


def build_lines(records: Iterable[RunRecord], choice: RunFilter = _ALL) -> Sequence[ReportLine]:
    """Return the lines, sorted by descending score."""
    grouped: dict[str, list[RunRecord]] = {}
    for record in records:
        grouped.setdefault(record.config.key, []).append(record)
    lines: list[ReportLine] = []
    for group in grouped.values():
        chosen = [record for record in group if choice.matches(record)]
        line = _line(chosen, len(group), group[-1].planned, choice.price) if chosen else None
        if line is not None and (choice.partial or not line.is_partial):
            lines.append(line)
    labels = label_configurations(line.config for line in lines)
    lines = [replace(line, label=labels[line.config.key]) for line in lines]
    return sorted(lines, key=lambda line: (-(line.metrics.score.value or 0), line.label, line.config.surface))


def list_scenarios(lines: Sequence[ReportLine]) -> Sequence[str]:
    """Return the names of all scenarios, in the order of their first runs."""
    return tuple(dict.fromkeys(name for line in lines for name in line.by_scenario))


def _line(records: Sequence[RunRecord], done: int, planned: int, price: Price | None) -> ReportLine:
    grouped: dict[str, list[RunRecord]] = {}
    for record in records:
        grouped.setdefault(record.scenario, []).append(record)
    by_scenario = {name: compute_metrics(group) for name, group in grouped.items()}
    config = records[0].config
    return ReportLine(config.label, config, records, compute_metrics(records), by_scenario, done, planned, price)
