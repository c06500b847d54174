"""The report as a self-contained HTML page: no scripts, external fonts or images."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from forge_proxy._version import __version__
from forge_proxy.core.rates import Rate
from forge_proxy.evals.reports.ablation_effect import compute_effects
from forge_proxy.evals.reports.lines import ReportLine, list_scenarios
from forge_proxy.evals.reports.markdown import EFFECT_HEAD, effect_rows
from forge_proxy.evals.reports.plots import effect_plot, scores_plot, speed_plot
from forge_proxy.evals.reports.table import format_interval, format_percent, summary_head, summary_rows

_STYLE = """
:root { color-scheme: light dark; --page: #fcfcfa; --ink: #1c1d1f; --soft: #63666b; --line: #dcdcd6;
  --reforged: #1a6fb5; --bare: #c2541b; --other: #6d6f76; --heat: 26, 111, 181; }
@media (prefers-color-scheme: dark) { :root { --page: #17181a; --ink: #e9e9e6; --soft: #a0a3a8; --line: #35373b;
  --reforged: #5fa8e6; --bare: #ec8a52; --other: #9a9ca3; --heat: 95, 168, 230; } }
body { margin: 0 auto; padding: 24px 16px 64px; max-width: 1080px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 36px 0 8px; }
p { color: var(--soft); max-width: 70ch; margin: 4px 0 12px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } .word { text-align: left; }
.long { white-space: normal; overflow-wrap: anywhere; min-width: 36ch; }
svg { width: 100%; min-width: 720px; height: auto; display: block; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .mark { fill: var(--soft); } .grid { stroke: var(--line); }
.zero { stroke: var(--soft); stroke-width: 1.5; } .whisker { stroke-width: 2; stroke-linecap: round; }
.reforged { stroke: var(--reforged); fill: var(--reforged); } .bare { stroke: var(--bare); fill: var(--bare); }
.other { stroke: var(--other); fill: var(--other); }
"""
_WORDS = frozenset({"model", "surface", "preset", "scenario"})
_WORD, _LONG, _COLUMN = ' class="word"', ' class="word long"', ' scope="col"'


_SCORES = (
    "A run scores when it reaches its terminal tool with the right arguments. The bars hold the true rate with 95 % "
    "confidence (Wilson)."
)
_AGAINST = (
    "How many points the score changes under a preset, in runs with the same scenario and seed. A bar that crosses "
    "zero may be chance; p is McNemar's exact test."
)
_COLOURS = "The numbers are those of the summary. Blue is reforged, orange is bare, grey are other presets."
_HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Eval results</title>'


def html_report(lines: Sequence[ReportLine]) -> str:
    """Return the page."""
    runs, scenarios = sum(len(line.records) for line in lines), len(list_scenarios(lines))
    about = f"{runs} runs, {len(lines)} configurations, {scenarios} scenarios. forge-proxy {escape(__version__)}."
    parts = ["<h1>Eval results</h1>", f"<p>{about}</p>", "<h2>Scores</h2>", f"<p>{_SCORES}</p>", scores_plot(lines)]
    if effects := list(compute_effects(lines)):
        parts += ["<h2>Against all guardrails</h2>", f"<p>{_AGAINST}</p>", effect_plot(effects)]
        parts.append(_table(EFFECT_HEAD, effect_rows(lines)))
    parts += [
        "<h2>Summary</h2>",
        _table(summary_head(lines), summary_rows(lines)),
        "<h2>By scenario</h2><p>The numbers at the top are those of the summary.</p>",
        _heat_map(lines),
        "<h2>Score and time</h2>",
        f"<p>{_COLOURS}</p>",
        speed_plot(lines),
    ]
    head = f"<head>{_HEAD}<style>{_STYLE}</style></head>"
    return f'<!doctype html><html lang="en">{head}<body>{"".join(parts)}</body></html>\n'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str]) -> str:
        marked = [f"<td{_kind(name, cell)}>{escape(cell)}</td>" for name, cell in zip(head, cells, strict=True)]
        return f"<tr>{''.join(marked)}</tr>"

    named = "".join(f"<th{_COLUMN}{_kind(name, name)}>{escape(name)}</th>" for name in head)
    return _wide(f"<tr>{named}</tr>{''.join(map(row, rows))}")


def _kind(name: str, cell: str) -> str:
    """Return the class of a cell. Long names wrap, so that the numbers next to them stay visible."""
    if name not in _WORDS:
        return ""
    return _WORD if len(cell) <= 48 else _LONG


def _heat_map(lines: Sequence[ReportLine]) -> str:
    """Return the scores by scenario; darker is better."""
    head = "".join(f"<th{_COLUMN}>#{number}</th>" for number in range(1, len(lines) + 1))
    rows = [f"<tr><th{_COLUMN}{_WORD}>scenario</th>{head}</tr>"]
    for name in list_scenarios(lines):
        cells = [_cell(line.by_scenario[name].score if name in line.by_scenario else None) for line in lines]
        rows.append(f'<tr><th scope="row"{_WORD}>{escape(name)}</th>{"".join(cells)}</tr>')
    return _wide("".join(rows))


def _wide(rows: str) -> str:
    """Return a table that scrolls if it is wider than the page, also by keyboard."""
    return f'<div class="wide" tabindex="0"><table>{rows}</table></div>'


def _cell(score: Rate | None) -> str:
    if score is None or score.value is None:
        return "<td></td>"
    title = f"{score.hits} of {score.total} ({format_interval(score)})"
    return (
        f'<td style="background:rgba(var(--heat),{0.6 * score.value:.2f})" title="{title}">{format_percent(score)}</td>'
    )
