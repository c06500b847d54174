"""Reads ruff's output: JSON of `ruff check`, text of `ruff format --check`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forge_proxy.core.jsontypes import Json, is_integer, is_list, is_object
from forge_proxy.core.tasks.check_output.places import relative_path
from forge_proxy.core.tasks.findings import Finding

_REFORMATTED = re.compile(r"^Would reformat: (?P<old>.+)$|^unformatted: .*\n\s*--> (?P<new>.+?):\d+:\d+$", re.MULTILINE)
_UNPARSED = re.compile(
    r"^(?:error: Failed to (?:parse|format) (?P<old>.+?):(?P<old_line>\d+):(?P<old_column>\d+): (?P<old_text>.+)"
    r"|invalid-syntax: (?P<text>.+)\n\s*--> (?P<new>.+?):(?P<line>\d+):(?P<column>\d+))$",
    re.MULTILINE,
)


def read_ruff_findings(check: str, output: Json, roots: Sequence[str]) -> Sequence[Finding] | None:
    """Return the findings of ruff's JSON; None if it is something else."""
    if not is_list(output) or not all(is_object(entry) and "filename" in entry for entry in output):
        return None
    return list(_read_entries(check, output, roots))


def _read_entries(check: str, output: Sequence[Json], roots: Sequence[str]) -> Iterator[Finding]:
    for entry in output:
        if not is_object(entry):
            continue
        location, code = entry.get("location"), entry.get("code")
        row, column = (location.get("row"), location.get("column")) if is_object(location) else (None, None)
        yield Finding(
            check,
            str(entry.get("message", "")),
            relative_path(str(entry["filename"]), roots),
            row if is_integer(row) else None,
            column if is_integer(column) else None,
            code if isinstance(code, str) else None,
        )


def read_format_findings(check: str, output: str, roots: Sequence[str]) -> Sequence[Finding]:
    """Return the files that `ruff format --check` would change, or cannot parse."""
    findings = [
        Finding(check, "the file is not formatted", relative_path(match["old"] or match["new"], roots), code="format")
        for match in _REFORMATTED.finditer(output)
    ]
    for match in _UNPARSED.finditer(output):
        path, line, column, text = (
            match.group("old", "old_line", "old_column", "old_text")
            if match["old"]
            else match.group("new", "line", "column", "text")
        )
        place = relative_path(path, roots)
        findings.append(Finding(check, text, place, int(line), int(column), "invalid-syntax"))
    return findings
