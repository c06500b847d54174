"""The results as a Markdown table, and its place in docs/security.md."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import forge_proxy
from tests.attack.attack import Result

_BEGIN, _END = "<!-- attack table: begin -->", "<!-- attack table: end -->"


def render(results: Sequence[Result]) -> str:
    """The table, in the order in which the attacks ran."""
    lines = [
        "| attack | result | seconds | CPU s | memory MB | loop ms | healthz ms | small chat ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(result) for result in results]
    return "\n".join(lines)


def _row(result: Result) -> str:
    measured = (
        _figure(result.cpu_seconds, ".1f"), _figure(result.growth_mb, "+.0f"),
        _figure(result.loop_ms, ".0f"), _figure(result.lag_ms, ".0f"), _figure(result.chat_ms, ".0f"),
    )  # fmt: skip
    verdict = "held" if result.held else f"**failed**: {result.breach}"
    name = f"{result.attack.group}: {result.attack.name}"
    figures = (f"{result.seconds:.1f}", *measured)
    return f"| {name} | {verdict.replace('|', chr(92) + '|')} | {' | '.join(figures)} |"


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def write_into(page: Path, results: Sequence[Result], date: str) -> None:
    """Replace the table in a page. Raises `ValueError` if the page has no place for it."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{page}: no lines {_BEGIN} and {_END}")
    held = sum(result.held for result in results)
    made = f"forge-proxy {forge_proxy.__version__}, Python {platform.python_version()}, {date}"
    said = f"{made}: {held} of {len(results)} held."
    page.write_text(f"{before}{begin}\n{said}\n\n{render(results)}\n{end}{after}", encoding="utf-8")
