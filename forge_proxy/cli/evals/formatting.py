"""`forge-proxy eval report`, `compare` and `list`: print results and scenarios, and write reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.evals.ablation import PRESETS, SURFACES
from forge_proxy.evals.record import EvalConfiguration, RunRecord, label_configurations
from forge_proxy.evals.reports.comparison import compare_runs, comparison_report
from forge_proxy.evals.reports.lines import ReportLine, RunFilter, build_lines
from forge_proxy.evals.reports.markdown import markdown_report
from forge_proxy.evals.reports.page import html_report
from forge_proxy.evals.reports.table import format_table, list_report, progress_report, text_report
from forge_proxy.evals.results import ResultsError, contains_runs, read_results
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.scenarios import ALL, TAGS, check_names


def presets_of(names: Sequence[str] | None) -> Sequence[str]:
    """Return the presets of a report for a `RunFilter`; none means all."""
    return () if names is None or "all" in names else names


def check_choice(choice: RunFilter, records: Sequence[RunRecord]) -> None:
    """Raise `InvalidRequest` for a name that neither this version nor the results contain."""
    check_names(
        "scenario",
        choice.scenarios,
        _deduplicate(record.name for record in ALL) + _deduplicate(record.scenario for record in records),
    )
    check_names("tags", choice.tags, TAGS + _deduplicate(tag for record in records for tag in record.tags))
    check_names(
        "ablation", choice.ablations, _deduplicate(PRESETS) + _deduplicate(record.config.ablation for record in records)
    )
    check_names("surface", choice.surfaces, SURFACES)
    if records:
        configs = [record.config for record in records]
        check_names(
            "model", choice.models, _deduplicate(name for record in configs for name in (record.model, record.label))
        )


def _deduplicate(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def show_report(lines: Sequence[ReportLine], *, list_only: bool, progress: bool) -> None:
    """Print a report."""
    print(progress_report(lines) if progress else list_report(lines) if list_only else text_report(lines))


def check_outputs(results: Sequence[Path], outputs: Sequence[Path | None]) -> None:
    """Raise `ResultsError` if a report would overwrite results."""
    for file in outputs:
        if file is None:
            continue
        is_read = file.resolve() in [each.resolve() for each in results]
        if is_read or contains_runs(file):
            raise ResultsError(f"{file}: the file contains the runs of an eval; choose another file for the report")


def write_report(lines: Sequence[ReportLine], html: Path | None, markdown: Path | None) -> None:
    """Write a report to files. Raises `ResultsError`."""
    for file, text in ((html, html_report), (markdown, markdown_report)):
        if file is None:
            continue
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text(lines), encoding="utf-8")
        except OSError as exc:
            raise ResultsError(f"{file}: {exc.strerror or exc}") from exc
        print(f"wrote {file}")


def results_file(sides: Sequence[str], file: Path | None, named: Path | None) -> Path | None:
    """Return the results file, given as FILE or as --results; None if neither is given.

    Raises `InvalidRequest` if both are given, or if the file precedes the configurations.
    """
    if file is None or named is None:
        given = file or named
        misplaced = [side for side in sides if Path(side).is_file()]
        if file is not None and not file.is_file() and misplaced:
            raise InvalidRequest("FILE", f"no results file {file}; the order is: eval compare A B {misplaced[0]}")
        return given
    raise InvalidRequest("--results", f"FILE is set already ({file}); remove one of them")


def show_comparison(first: str, second: str, results: Path, choice: RunFilter) -> None:
    """Compare two configurations: each is a results file, or a preset, model, surface or key in the results.

    Raises `ResultsError` or `InvalidRequest`.
    """
    line_a, line_b = _find_line("A", first, results, choice), _find_line("B", second, results, choice)
    labels = label_configurations((line_a.config, line_b.config))
    descriptions = [
        f"{_describe(labels[line.config.key], line.config)}{f', from {word}' if Path(word).is_file() else ''}"
        for line, word in ((line_a, first), (line_b, second))
    ]
    print(comparison_report(compare_runs(line_a.records, line_b.records), *descriptions))


def _find_line(side: str, word: str, results: Path, choice: RunFilter) -> ReportLine:
    """Return the runs of one side as a line of the report.

    Raises `InvalidRequest` if they have several configurations.
    """
    is_file = Path(word).is_file()
    records = read_results([Path(word) if is_file else results])
    check_choice(choice, records)
    lines = [
        line for line in build_lines(records, choice)
        if is_file or word in _names(line)
    ]  # fmt: skip
    if not lines:
        raise InvalidRequest(side, f"no runs of {word!r}{'' if is_file else f' in {results}'}")
    if len(lines) > 1:
        there = "; ".join(f"{line.config.key} ({_describe(line.label, line.config)})" for line in lines)
        how = "with --model, --surface or --ablation" + ("" if is_file else f", or use its key instead of {word}")
        raise InvalidRequest(side, f"{word} matches {len(lines)} configurations: {there}; select one {how}")
    return lines[0]


def _names(line: ReportLine) -> tuple[str, ...]:
    one = line.config
    return one.key, line.label, one.ablation, one.model, one.label, one.surface, one.backend, one.mode


def _describe(label: str, config: EvalConfiguration) -> str:
    return f"{label}, {config.surface}, {config.ablation}"


def show_scenarios(scenarios: Sequence[Scenario], *, list_only: bool) -> None:
    """Print the scenarios, and the presets."""
    if list_only:
        print("\n".join(one.name for one in scenarios))
        return
    rows = [(one.name, str(one.ideal_iterations), ", ".join(sorted(one.tags)), one.description) for one in scenarios]
    print(format_table(("scenario", "ideal", "tags", "task"), rows))
    print()
    presets = [(one.name, ", ".join(sorted(one.surfaces)), one.description) for one in PRESETS.values()]
    print(format_table(("preset", "surfaces", "what is off"), presets))
