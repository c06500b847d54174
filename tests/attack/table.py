"""The results as a Markdown table, and its place in docs/security.md."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import forge_proxy
from tests.attack.attack import Attack, Drill, Result

_BEGIN, _END = "<!-- attack table: begin -->", "<!-- attack table: end -->"
_HEAD = (
    "| attack | result | seconds | CPU s | memory MB | loop ms | healthz ms | small chat ms | date |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def render(results: Sequence[Result], date: str) -> str:
    """The table, in the order in which the attacks ran."""
    return "\n".join([*_HEAD, *(_row(result, date) for result in results)])


def _row(result: Result, date: str) -> str:
    measured = (
        _figure(result.cpu_seconds, ".1f"), _figure(result.growth_mb, "+.0f"),
        _figure(result.loop_ms, ".0f"), _figure(result.lag_ms, ".0f"), _figure(result.chat_ms, ".0f"),
    )  # fmt: skip
    verdict = "held" if result.held else f"**failed**: {result.breach}"
    figures = (f"{result.seconds:.1f}", *measured, date)
    return f"| {_name(result.attack)} | {verdict.replace('|', chr(92) + '|')} | {' | '.join(figures)} |"


def _name(attack: Attack | Drill) -> str:
    return f"{attack.group}: {attack.name}"


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def write_into(page: Path, results: Sequence[Result], date: str, suite: Sequence[Attack | Drill]) -> None:
    """Replace the rows of these results in a page; rows of other attacks of the suite stay.

    Raises `ValueError` if the page has no place for the table.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    table, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{page}: no lines {_BEGIN} and {_END}")
    known = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines() if line.startswith("| ")}
    known |= {_name(result.attack): _row(result, date) for result in results}
    rows = [known[name] for name in map(_name, suite) if name in known]
    held = sum(" | held | " in row for row in rows)
    said = f"forge-proxy {forge_proxy.__version__}, Python {platform.python_version()}: {held} of {len(rows)} held."
    made = "\n".join([*_HEAD, *rows])
    page.write_text(f"{before}{begin}\n{said}\n\n{made}\n{end}{after}", encoding="utf-8")
