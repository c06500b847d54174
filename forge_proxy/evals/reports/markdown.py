"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.evals.reports.ablation_effect import worths_of
from forge_proxy.evals.reports.comparison import points, span
from forge_proxy.evals.reports.lines import ReportLine
from forge_proxy.evals.reports.table import percent, scenario_rows, summary_head, summary_rows

WORTH = ("model", "surface", "preset", "pairs", "reforged", "preset's", "difference", "95 %", "p")


def markdown_report(lines: Sequence[ReportLine]) -> str:
    """A page with the summary, what each guardrail is worth, and the score in each scenario."""
    parts = ["# Eval results", _table(summary_head(lines), summary_rows(lines))]
    if worth := worth_rows(lines):
        parts += ["## Against all guardrails", _table(WORTH, worth)]
    head = ("scenario", *(f"#{number}" for number in range(1, len(lines) + 1)))
    parts += ["## By scenario", _table(head, scenario_rows(lines))]
    return "\n\n".join(parts) + "\n"


def worth_rows(lines: Sequence[ReportLine]) -> list[tuple[str, ...]]:
    """What is lost under each preset, as `WORTH` names it."""
    return [
        (
            one.label,
            one.config.surface,
            one.config.ablation,
            str(one.all.pairs.total),
            percent(one.all.first),
            percent(one.all.second),
            points(one.all.pairs.difference),
            span(one.all.pairs.interval),
            f"{one.all.pairs.p:.2g}",
        )
        for one in worths_of(lines)
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
