"""SVG plots with the colors of the surrounding page and the numbers as tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from forge_proxy.evals.record import EvalConfiguration
from forge_proxy.evals.reports.ablation_effect import AblationEffect
from forge_proxy.evals.reports.comparison import format_points, format_span
from forge_proxy.evals.reports.lines import ReportLine
from forge_proxy.evals.reports.table import format_interval, format_percent

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 880, 350, 90, 26, 26


@dataclass(frozen=True, slots=True)
class _Axis:
    """A horizontal axis from `low` to `high` with ticks at `marks`."""

    low: float
    high: float
    marks: Sequence[float]

    def x(self, value: float) -> float:
        """Return the x coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def draw(self, rows: int, unit: str) -> str:
        """Return the grid lines for a number of rows, and the labels."""
        bottom = _TOP + rows * _ROW
        return "".join(
            f'<line class="grid" x1="{self.x(mark)}" y1="{_TOP}" x2="{self.x(mark)}" y2="{bottom}"/>'
            f'<text class="mark" x="{self.x(mark)}" y="{_TOP - 9}" text-anchor="middle">{mark:g}{unit}</text>'
            for mark in self.marks
        )


def scores_plot(lines: Sequence[ReportLine]) -> str:
    """Plot the score of each configuration with its interval."""
    axis = _Axis(0, 100, (0, 25, 50, 75, 100))
    rows: list[str] = []
    for place, line in enumerate(lines):
        score = line.metrics.score
        found = score.interval
        if score.value is None or found is None:
            continue
        name = _name(_short(line.label), line.config)
        figure = f"{format_percent(score)} ({format_interval(score)})"
        title = f"{_name(line.label, line.config)}: {score.hits} of {score.total}, {figure}"
        kind = line.config.ablation if line.config.ablation in ("reforged", "bare") else "other"
        rows.append(
            _row(
                place,
                name,
                title,
                kind,
                axis,
                100 * score.value,
                100 * found.low,
                100 * found.high,
                format_percent(score),
            )
        )
    return _svg(len(lines), axis.draw(len(lines), " %") + "".join(rows), "Score of each configuration, with intervals")


def effect_plot(effects: Sequence[AblationEffect]) -> str:
    """Plot the change of the score under each preset, with its interval."""
    # Presets rarely increase the score by more than 50 points; the axis is longer if one does.
    most = max((found.high for effect in effects if (found := effect.all.pairs.interval)), default=0.0)
    end, step = (50, 25) if most <= 0.5 else (100, 50)
    axis = _Axis(-100, end, range(-100, end + 1, step))
    rows: list[str] = []
    for place, effect in enumerate(effects):
        pairs = effect.all.pairs
        found = pairs.interval
        if pairs.difference is None or found is None:
            continue
        name = _name(_short(effect.label), effect.config)
        change = (
            f"{format_points(pairs.difference)} points ({format_span(found)}), p = {pairs.p:.2g}, {pairs.total} pairs"
        )
        title = f"{_name(effect.label, effect.config)}: {change}"
        kind = "bare" if effect.config.ablation == "bare" else "other"
        low, high, figure = 100 * found.low, 100 * found.high, format_points(pairs.difference)
        rows.append(_row(place, name, title, kind, axis, 100 * pairs.difference, low, high, figure))
    zero = f'<line class="zero" x1="{axis.x(0)}" y1="{_TOP}" x2="{axis.x(0)}" y2="{_TOP + len(effects) * _ROW}"/>'
    inside = axis.draw(len(effects), "") + zero + "".join(rows)
    return _svg(len(effects), inside, "Change of the score against all guardrails, in points")


def speed_plot(lines: Sequence[ReportLine]) -> str:
    """Plot the score against the seconds of a run. Each point has the number of its line."""
    timed = [
        (number, line)
        for number, line in enumerate(lines, 1)
        if line.metrics.seconds is not None and line.metrics.score.value is not None
    ]
    most = max((line.metrics.seconds or 0 for _, line in timed), default=0) * 1.1 or 1
    left, top, width, height = 60, 16, _WIDTH - 90, 240
    parts = [
        f'<line class="grid" x1="{left}" y1="{top + height * (1 - mark / 100)}" x2="{left + width}" '
        f'y2="{top + height * (1 - mark / 100)}"/><text class="mark" x="{left - 8}" '
        f'y="{top + height * (1 - mark / 100) + 4}" text-anchor="end">{mark} %</text>'
        for mark in (0, 25, 50, 75, 100)
    ]
    for step in range(5):
        x = left + width * step / 4
        parts.append(
            f'<text class="mark" x="{x}" y="{top + height + 20}" text-anchor="middle">{most * step / 4:.2g} s</text>'
        )
    for number, line in timed:
        seconds, score = line.metrics.seconds or 0, line.metrics.score
        name = _name(line.label, line.config)
        kind = line.config.ablation if line.config.ablation in ("reforged", "bare") else "other"
        x, y = left + width * seconds / most, top + height * (1 - (score.value or 0))
        parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{escape(name)}: {format_percent(score)}, '
            f'{seconds:.2f} s a run</title></circle><text class="mark" x="{x + 9:.1f}" y="{y + 4:.1f}">{number}</text>'
        )
    return _svg_of(height + 50, "".join(parts), "Score by seconds a run")


def _row(
    place: int, name: str, title: str, kind: str, axis: _Axis, value: float, low: float, high: float, figure: str
) -> str:
    """Return a row: a name, a point with whiskers, and the number."""
    y = _TOP + place * _ROW + _ROW / 2
    return (
        f"<g><title>{escape(title)}</title>"
        f'<text class="name" x="{_LEFT - 14}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
        f'<line class="whisker {kind}" x1="{axis.x(low)}" y1="{y}" x2="{axis.x(high)}" y2="{y}"/>'
        f'<circle class="{kind}" cx="{axis.x(value)}" cy="{y}" r="5"/>'
        f'<text class="figure" x="{_WIDTH - _RIGHT + 16}" y="{y + 4}">{escape(figure)}</text></g>'
    )


def _name(label: str, config: EvalConfiguration) -> str:
    return f"{label} · {config.surface} · {config.ablation}"


def _short(label: str) -> str:
    """Shorten a label in the middle: file names of one model usually differ at the end."""
    return label if len(label) <= 28 else f"{label[:9]}…{label[-18:]}"


def _svg(rows: int, inside: str, label: str) -> str:
    return _svg_of(_TOP + rows * _ROW + 8, inside, label)


def _svg_of(height: int, inside: str, label: str) -> str:
    svg = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'
    return f'<div class="wide" tabindex="0">{svg}</div>'
