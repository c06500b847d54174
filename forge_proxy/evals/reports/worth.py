"""What each guardrail is worth: each preset against `reforged`, of the same model on the same surface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forge_proxy.evals.record import Configuration
from forge_proxy.evals.reports.comparison import Compared, compared
from forge_proxy.evals.reports.lines import Line

WHOLE = "reforged"


@dataclass(frozen=True, slots=True)
class Worth:
    """A preset and its runs beside those of `reforged`: `all` is how much it loses."""

    label: str
    config: Configuration
    all: Compared


def worths_of(lines: Sequence[Line]) -> Iterator[Worth]:
    """Each preset whose model was run with all guardrails too, in the order of the lines."""
    whole = {_apart_from_preset(line.config): line for line in lines if line.config.ablation == WHOLE}
    for line in lines:
        base = whole.get(_apart_from_preset(line.config))
        if base is None or base is line:
            continue
        rows = compared(base.records, line.records)
        if rows:
            yield Worth(line.label, line.config, rows[-1])


def _apart_from_preset(config: Configuration) -> str:
    return config.model_copy(update={"ablation": WHOLE}).key
