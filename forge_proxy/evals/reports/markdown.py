"""The report in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.evals.reports.ablation_effect import compute_effects
from forge_proxy.evals.reports.comparison import format_points, format_span
from forge_proxy.evals.reports.lines import ReportLine
from forge_proxy.evals.reports.table import format_percent, scenario_rows, summary_head, summary_rows

EFFECT_HEAD = ("model", "surface", "preset", "pairs", "reforged", "preset's", "difference", "95 %", "p")


def markdown_report(lines: Sequence[ReportLine]) -> str:
    """Return a page with the summary, the effect of each guardrail, and the score of each scenario."""
    parts = ["# Eval results", _table(summary_head(lines), summary_rows(lines))]
    if effects := effect_rows(lines):
        parts += ["## Against all guardrails", _table(EFFECT_HEAD, effects)]
    head = ("scenario", *(f"#{number}" for number in range(1, len(lines) + 1)))
    parts += ["## By scenario", _table(head, scenario_rows(lines))]
    return "\n\n".join(parts) + "\n"


def effect_rows(lines: Sequence[ReportLine]) -> list[tuple[str, ...]]:
    """Return the rows of the effects in the order of `EFFECT_HEAD`."""
    return [
        (
            one.label,
            one.config.surface,
            one.config.ablation,
            str(one.all.pairs.total),
            format_percent(one.all.first),
            format_percent(one.all.second),
            format_points(one.all.pairs.difference),
            format_span(one.all.pairs.interval),
            f"{one.all.pairs.p:.2g}",
        )
        for one in compute_effects(lines)
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines)


def _escape(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
