"""Results as plain text: a table, a list for narrow screens, and how far each configuration has come."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.evals.rates import Rate
from forge_proxy.evals.reports.lines import ReportLine, scenarios_of

_SUMMARY = (
    "#", "model", "surface", "preset", "runs", "score", "95 %", "accuracy", "complete", "efficiency", "wasted",
    "s/run", "retry", "step", "prereq", "errors", "read", "written",
)  # fmt: skip


def text_report(lines: Sequence[ReportLine]) -> str:
    """Both tables: one of the configurations, one of their scores in each scenario."""
    if not lines:
        return "no runs to report: none were made, or all configurations are partial (--include-partial shows those)"
    parts = [grid(summary_head(lines), summary_rows(lines))]
    parts.append(grid(("scenario", *(f"#{number}" for number in range(1, len(lines) + 1))), scenario_rows(lines)))
    return "\n\n".join(parts)


def list_report(lines: Sequence[ReportLine]) -> str:
    """Two short lines for each configuration."""
    out: list[str] = []
    for number, line in enumerate(lines, 1):
        config, metrics = line.config, line.metrics
        out.append(f"{number}. {line.label}, {config.surface}, {config.ablation}")
        out.append(f"   {percent(metrics.score)} ({interval(metrics.score)}) of {metrics.score.of}")
    return "\n".join(out) or "no runs to report"


def progress_report(lines: Sequence[ReportLine]) -> str:
    """How many runs of each configuration there are, of how many that were planned."""
    rows = [
        (line.label, line.config.surface, line.config.ablation, f"{line.done}/{line.planned}", _left(line))
        for line in lines
    ]
    return grid(("model", "surface", "preset", "runs", "left"), rows)


def _left(line: ReportLine) -> str:
    return f"{line.planned - line.done} to go" if line.is_partial else "complete"


def summary_head(lines: Sequence[ReportLine]) -> tuple[str, ...]:
    """The columns of a summary. From `s/run` on they are averages of a run, of tokens those of prompts and answers."""
    return (*_SUMMARY, "cost") if any(line.price for line in lines) else _SUMMARY


def summary_rows(lines: Sequence[ReportLine]) -> list[tuple[str, ...]]:
    """The cells of the configurations, as the head names them."""
    return [_summary(number, line) for number, line in enumerate(lines, 1)]


def _summary(number: int, line: ReportLine) -> tuple[str, ...]:
    config, metrics = line.config, line.metrics
    return (
        str(number),
        line.label,
        config.surface,
        config.ablation,
        str(metrics.score.of),
        percent(metrics.score),
        interval(metrics.score),
        percent(metrics.accuracy),
        percent(metrics.completeness),
        number_of(metrics.efficiency, 2),
        number_of(metrics.wasted, 2),
        number_of(metrics.seconds, 2),
        number_of(metrics.retry_nudges, 2),
        number_of(metrics.step_nudges, 2),
        number_of(metrics.prerequisite_nudges, 2),
        number_of(metrics.tool_errors, 2),
        number_of(metrics.input_tokens, 0),
        number_of(metrics.output_tokens, 0),
        *([number_of(metrics.cost(line.price), 5)] if line.price else []),
    )


def scenario_rows(lines: Sequence[ReportLine]) -> list[tuple[str, ...]]:
    """The score of each configuration in each scenario."""
    rows: list[tuple[str, ...]] = []
    for name in scenarios_of(lines):
        scores = [line.by_scenario[name].score if name in line.by_scenario else None for line in lines]
        rows.append((name, *("" if score is None else percent(score) for score in scores)))
    return rows


def percent(rate: Rate) -> str:
    """A share, rounded to whole percents."""
    return "–" if rate.value is None else f"{100 * rate.value:.0f} %"


def interval(rate: Rate) -> str:
    """Its interval, in percents."""
    found = rate.interval
    return "–" if found is None else f"{100 * found.low:.0f}–{100 * found.high:.0f}"


def number_of(value: float | None, places: int) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{places}f}"


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with columns as wide as what is in them; what looks like a figure stands at the right."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    right = [all(_is_figure(row[place]) for row in rows) for place in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if at_right else cell.ljust(width)
            for cell, width, at_right in zip(cells, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join((line(head), "  ".join("-" * width for width in widths), *map(line, rows)))


def _is_figure(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "–-+" or cell.startswith("#")
