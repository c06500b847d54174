"""The effect of each guardrail: each preset compared with `reforged`, for the same model and surface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forge_proxy.evals.record import EvalConfiguration
from forge_proxy.evals.reports.comparison import ComparedRuns, compare_runs
from forge_proxy.evals.reports.lines import ReportLine

WHOLE = "reforged"


@dataclass(frozen=True, slots=True)
class AblationEffect:
    """A preset compared with `reforged`. `all` has the runs of all scenarios."""

    label: str
    config: EvalConfiguration
    all: ComparedRuns


def compute_effects(lines: Sequence[ReportLine]) -> Iterator[AblationEffect]:
    """Yield the effect of each preset whose model was also run with `reforged`, in the order of the lines."""
    whole = {_key_without_preset(line.config): line for line in lines if line.config.ablation == WHOLE}
    for line in lines:
        base = whole.get(_key_without_preset(line.config))
        if base is None or base is line:
            continue
        rows = compare_runs(base.records, line.records)
        if rows:
            yield AblationEffect(line.label, line.config, rows[-1])


def _key_without_preset(config: EvalConfiguration) -> str:
    return config.model_copy(update={"ablation": WHOLE}).key
