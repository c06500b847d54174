"""The lines of a report: one for each configuration, the best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from forge_proxy.evals.metrics import Metrics, Price, measure
from forge_proxy.evals.record import EvalConfiguration, RunRecord, labels_of


@dataclass(frozen=True, slots=True)
class ReportLine:
    """The runs of one configuration. `done` and `planned` are counted before anything was filtered."""

    label: str
    """What tells it from the other lines, together with its surface and preset."""
    config: EvalConfiguration
    records: Sequence[RunRecord]
    metrics: Metrics
    by_scenario: Mapping[str, Metrics]
    done: int
    planned: int
    price: Price | None = None

    @property
    def is_partial(self) -> bool:
        """Whether runs are still to be made."""
        return self.done < self.planned


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs a report is of. What is empty chooses all; of several one is enough."""

    ablations: Sequence[str] = ()
    surfaces: Sequence[str] = ()
    models: Sequence[str] = ()
    scenarios: Sequence[str] = ()
    tags: Sequence[str] = ()
    partial: bool = False
    """Whether configurations are shown whose runs have not all been made."""
    price: Price | None = None
    """Where one is given, lines tell what a run cost."""

    def takes(self, record: RunRecord) -> bool:
        """Whether a run is one of them."""
        config = record.config
        return (
            (not self.ablations or config.ablation in self.ablations)
            and (not self.surfaces or config.surface in self.surfaces)
            and (not self.models or config.model in self.models or config.label in self.models)
            and (not self.scenarios or record.scenario in self.scenarios)
            and (not self.tags or not set(self.tags).isdisjoint(record.tags))
        )


_ALL = RunFilter(partial=True)


def lines_of(records: Iterable[RunRecord], choice: RunFilter = _ALL) -> Sequence[ReportLine]:
    """The lines, by score."""
    grouped: dict[str, list[RunRecord]] = {}
    for record in records:
        grouped.setdefault(record.config.key, []).append(record)
    lines: list[ReportLine] = []
    for group in grouped.values():
        chosen = [record for record in group if choice.takes(record)]
        line = _line(chosen, len(group), group[-1].planned, choice.price) if chosen else None
        if line is not None and (choice.partial or not line.is_partial):
            lines.append(line)
    labels = labels_of(line.config for line in lines)
    lines = [replace(line, label=labels[line.config.key]) for line in lines]
    return sorted(lines, key=lambda line: (-(line.metrics.score.value or 0), line.label, line.config.surface))


def scenarios_of(lines: Sequence[ReportLine]) -> Sequence[str]:
    """All scenarios in them, in the order in which they were first run."""
    return tuple(dict.fromkeys(name for line in lines for name in line.by_scenario))


def _line(records: Sequence[RunRecord], done: int, planned: int, price: Price | None) -> ReportLine:
    grouped: dict[str, list[RunRecord]] = {}
    for record in records:
        grouped.setdefault(record.scenario, []).append(record)
    by_scenario = {name: measure(group) for name, group in grouped.items()}
    config = records[0].config
    return ReportLine(config.label, config, records, measure(records), by_scenario, done, planned, price)
