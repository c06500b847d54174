"""The report as plain text: tables, a list for narrow screens, and the progress of each configuration."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.rates import Rate
from forge_proxy.evals.reports.lines import ReportLine, list_scenarios

_SUMMARY = (
    "#", "model", "surface", "preset", "runs", "score", "95 %", "accuracy", "complete", "efficiency", "wasted",
    "s/run", "retry", "step", "prereq", "errors", "read", "written",
)  # fmt: skip


def text_report(lines: Sequence[ReportLine]) -> str:
    """Return two tables: the summary of each configuration, and the scores of each scenario."""
    if not lines:
        return "no runs to report: none were made, or all configurations are partial (--include-partial shows those)"
    parts = [format_table(summary_head(lines), summary_rows(lines))]
    parts.append(
        format_table(("scenario", *(f"#{number}" for number in range(1, len(lines) + 1))), scenario_rows(lines))
    )
    return "\n\n".join(parts)


def list_report(lines: Sequence[ReportLine]) -> str:
    """Return two short lines for each configuration."""
    out: list[str] = []
    for number, line in enumerate(lines, 1):
        config, metrics = line.config, line.metrics
        out.append(f"{number}. {line.label}, {config.surface}, {config.ablation}")
        out.append(f"   {format_percent(metrics.score)} ({format_interval(metrics.score)}) of {metrics.score.total}")
    return "\n".join(out) or "no runs to report"


def progress_report(lines: Sequence[ReportLine]) -> str:
    """Return the number of finished and planned runs of each configuration."""
    rows = [
        (
            line.label,
            line.config.surface,
            line.config.ablation,
            f"{line.done}/{line.planned}",
            _describe_remaining(line),
        )
        for line in lines
    ]
    return format_table(("model", "surface", "preset", "runs", "left"), rows)


def _describe_remaining(line: ReportLine) -> str:
    return f"{line.planned - line.done} to go" if line.is_partial else "complete"


def summary_head(lines: Sequence[ReportLine]) -> tuple[str, ...]:
    """Return the columns of the summary. From `s/run` on they are averages per run; `read` and `written` are tokens."""
    return (*_SUMMARY, "cost") if any(line.price for line in lines) else _SUMMARY


def summary_rows(lines: Sequence[ReportLine]) -> list[tuple[str, ...]]:
    """Return the rows of the summary in the order of `summary_head`."""
    return [_summary(number, line) for number, line in enumerate(lines, 1)]


def _summary(number: int, line: ReportLine) -> tuple[str, ...]:
    config, metrics = line.config, line.metrics
    return (
        str(number),
        line.label,
        config.surface,
        config.ablation,
        str(metrics.score.total),
        format_percent(metrics.score),
        format_interval(metrics.score),
        format_percent(metrics.accuracy),
        format_percent(metrics.completeness),
        format_number(metrics.efficiency, 2),
        format_number(metrics.wasted, 2),
        format_number(metrics.seconds, 2),
        format_number(metrics.retry_nudges, 2),
        format_number(metrics.step_nudges, 2),
        format_number(metrics.prerequisite_nudges, 2),
        format_number(metrics.tool_errors, 2),
        format_number(metrics.input_tokens, 0),
        format_number(metrics.output_tokens, 0),
        *([format_number(metrics.cost(line.price), 5)] if line.price else []),
    )


def scenario_rows(lines: Sequence[ReportLine]) -> list[tuple[str, ...]]:
    """Return the scores of each configuration in each scenario."""
    rows: list[tuple[str, ...]] = []
    for name in list_scenarios(lines):
        scores = [line.by_scenario[name].score if name in line.by_scenario else None for line in lines]
        rows.append((name, *("" if score is None else format_percent(score) for score in scores)))
    return rows


def format_percent(rate: Rate) -> str:
    """Format a proportion in whole percents."""
    return "–" if rate.value is None else f"{100 * rate.value:.0f} %"


def format_interval(rate: Rate) -> str:
    """Format the interval of a proportion in percents."""
    found = rate.interval
    return "–" if found is None else f"{100 * found.low:.0f}–{100 * found.high:.0f}"


def format_number(value: float | None, places: int) -> str:
    """Format a number; a dash for None."""
    return "–" if value is None else f"{value:.{places}f}"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as plain text. Columns of numbers are aligned right."""
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
