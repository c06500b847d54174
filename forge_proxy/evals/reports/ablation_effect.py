"""What each guardrail is worth: each preset against `reforged`, of the same model on the same surface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forge_proxy.evals.record import EvalConfiguration
from forge_proxy.evals.reports.comparison import ComparedRuns, compared
from forge_proxy.evals.reports.lines import ReportLine

WHOLE = "reforged"


@dataclass(frozen=True, slots=True)
class AblationEffect:
    """A preset and its runs beside those of `reforged`: `all` is how much it loses."""

    label: str
    config: EvalConfiguration
    all: ComparedRuns


def worths_of(lines: Sequence[ReportLine]) -> Iterator[AblationEffect]:
    """Each preset whose model was run with all guardrails too, in the order of the lines."""
    whole = {_apart_from_preset(line.config): line for line in lines if line.config.ablation == WHOLE}
    for line in lines:
        base = whole.get(_apart_from_preset(line.config))
        if base is None or base is line:
            continue
        rows = compared(base.records, line.records)
        if rows:
            yield AblationEffect(line.label, line.config, rows[-1])


def _apart_from_preset(config: EvalConfiguration) -> str:
    return config.model_copy(update={"ablation": WHOLE}).key
