"""Turns the output of any check into findings."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.core.tasks.check_output.located import read_located_findings
from forge_proxy.core.tasks.check_output.pytest import count_tests, is_pytest, read_pytest_findings
from forge_proxy.core.tasks.check_output.ruff import read_format_findings, read_ruff_findings
from forge_proxy.core.tasks.findings import Finding

EXIT_CODE = "exit"
"""The code of a finding for a command that failed and printed no location."""
STOPPED = "stopped"
"""The code of a finding for a command that was killed."""
_MAX_FINDINGS = 500
_MAX_TAIL = 2000
_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """What a command of a check printed, and how it ended."""

    code: int
    out: str
    err: str = ""
    stopped: str = ""
    """Why it was killed; empty if it ended by itself."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings of one command, also those of the base branch."""

    findings: tuple[Finding, ...]
    collected_tests: int | None = None


def read_check_output(check: str, output: CheckOutput, roots: Sequence[str]) -> CheckReport:
    """Return the findings of a command. One that failed has at least one; one that succeeded has none.

    `roots` are absolute paths under which the output may name the folder of the repository.
    """
    text = _COLORS.sub("", f"{output.out}\n{output.err}").replace("\r\n", "\n")
    tests = count_tests(text) if is_pytest(text) else None
    if output.stopped:
        return CheckReport((Finding(check, f"the command was stopped: {output.stopped}", code=STOPPED),), tests)
    if output.code == 0:
        return CheckReport((), tests)
    findings = _read_findings(check, output.out, text, roots)
    if not findings:
        tail = text.strip()[-_MAX_TAIL:] or "it printed nothing"
        findings = [Finding(check, f"the command failed with exit code {output.code}: {tail}", code=EXIT_CODE)]
    return CheckReport(tuple(findings[:_MAX_FINDINGS]), tests)


def _read_findings(check: str, out: str, text: str, roots: Sequence[str]) -> Sequence[Finding]:
    if out.lstrip().startswith("["):
        try:
            findings = read_ruff_findings(check, json.loads(out), roots)
        except (ValueError, RecursionError):
            findings = None
        if findings:
            return findings
    if is_pytest(text):
        return read_pytest_findings(check, text, roots)
    return read_format_findings(check, text, roots) or read_located_findings(check, text, roots)
