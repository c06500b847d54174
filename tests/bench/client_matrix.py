"""Measures the guardrails with each kind of client, and writes the tables of docs/evals.md.

`make client-matrix ARGS="--minutes 60"`. The results file is continued, so an interrupted matrix loses nothing. The
tables have the cells whose runs are complete.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from forge_proxy.cli.evals.run import quick_settings
from forge_proxy.cli.evals.run_all import EvalPlan, EvaluatedModel, run_models
from forge_proxy.core.rates import PairedRuns
from forge_proxy.evals.ablation import PRESETS, select_presets
from forge_proxy.evals.clients import ClientKind
from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.reports.comparison import compare_runs, format_points, format_span
from forge_proxy.evals.reports.lines import ReportLine, build_lines
from forge_proxy.evals.reports.table import format_interval, format_number, format_percent
from forge_proxy.evals.results import ResultsFile, read_results
from forge_proxy.evals.scenarios import select_scenarios
from forge_proxy.evals.scenarios.generated.tasks import RUNS

KINDS: tuple[ClientKind, ...] = ("text", "terminal", "reprompting", "required")
NEW = ("v02", "no_answer_grounding", "no_terminal_tools", "no_repeats", "no_early_end", "no_constrain")
TEMPERATURES = (0.2, 1.0)
BEGIN, END = "<!-- client matrix -->", "<!-- end of the client matrix -->"
_HEAD = ("client", "temperature", "preset", "score", "95 %", "over bare", "95 %", "p", "read", "written")
_DOCS = Path(__file__).parents[2] / "docs" / "evals.md"


def build_plan(tag: str, temperature: float, seconds: float | None) -> EvalPlan:
    """Return the plan of one set of tasks at one temperature: at least 300 pairs a cell."""
    scenarios = select_scenarios(tags=[tag])
    runs = RUNS if tag == "generated" else 28
    presets = ["bare", "reforged", *(name for name in NEW if name in PRESETS)]
    return EvalPlan(
        select_presets(presets, ["proxy"]),
        scenarios,
        runs,
        clients=KINDS,
        temperature=temperature,
        max_tokens=200,
        parallel=None,
        seconds=seconds,
    )


def table_rows(records: Sequence[RunRecord]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the complete cells, each preset compared with `bare` in pairs."""
    lines = {_cell(line): line for line in build_lines(records) if not line.is_partial}
    for temperature in TEMPERATURES:
        for client in KINDS:
            base = lines.get((client, temperature, "bare"))
            for preset in ("bare", "reforged", *NEW):
                line = lines.get((client, temperature, preset))
                if line is None or base is None:
                    continue
                yield _row(line, compare_runs(base.records, line.records)[-1].pairs)


def _row(line: ReportLine, pairs: PairedRuns) -> tuple[str, ...]:
    metrics, config = line.metrics, line.config
    compared = ("", "", "")
    if config.ablation != "bare":
        compared = (format_points(pairs.difference), format_span(pairs.interval), f"{pairs.p:.2g}")
    return (
        config.client,
        f"{config.temperature:g}",
        f"`{config.ablation}`",
        format_percent(metrics.score),
        format_interval(metrics.score),
        *compared,
        format_number(metrics.input_tokens, 0),
        format_number(metrics.output_tokens, 0),
    )


def _cell(line: ReportLine) -> tuple[str, float | None, str]:
    return line.config.client, line.config.temperature, line.config.ablation


def markdown(records: Sequence[RunRecord]) -> str:
    """Return the tables of all sets of tasks."""
    parts: list[str] = []
    for tag in ("quick", "generated"):
        rows = list(table_rows([record for record in records if tag in record.tags]))
        if rows:
            lines = [_HEAD, ["---"] * len(_HEAD), *rows]
            parts += [f"Tasks: {tag}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts) or "No cell is complete yet."


def write_section(page: str, tables: str) -> str:
    """Return the page with the tables between the two marks, which are added at the end if they are missing."""
    if BEGIN not in page:
        page = f"{page.rstrip()}\n\n## Kinds of client\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Run the matrix and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/client-matrix.jsonl"))
    parser.add_argument("--minutes", type=float, help="start no run after this time; the same command continues")
    parser.add_argument("--tags", nargs="*", default=["quick", "generated"])
    parser.add_argument("--report-only", action="store_true")
    given = parser.parse_args()
    parts = [(tag, temperature) for tag in given.tags for temperature in TEMPERATURES]
    if not given.report_only:
        file, began = ResultsFile(given.out), time.monotonic()
        try:
            for place, (tag, temperature) in enumerate(parts):
                left = given.minutes * 60 - (time.monotonic() - began) if given.minutes else None
                seconds = None if left is None else left / (len(parts) - place)
                asyncio.run(run_models([EvaluatedModel(quick_settings())], build_plan(tag, temperature, seconds), file))
        finally:
            file.close()
    tables = markdown(read_results([given.out]))
    _DOCS.write_text(write_section(_DOCS.read_text(), tables))
    print(tables)  # noqa: T201


if __name__ == "__main__":
    main()
