"""Which findings are new: those that the base branch did not have."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from forge_proxy.core.tasks.check_output.read_output import EXIT_CODE, STOPPED
from forge_proxy.core.tasks.findings import Baseline, Finding

_NUMBER = re.compile(r"\b0x[0-9a-fA-F]+\b|\d+")
_Identity: TypeAlias = tuple[str, str | None, str | None, str | None]


def find_new(findings: Sequence[Finding], baseline: Baseline) -> Sequence[Finding]:
    """Return the findings that exceed those of the base branch.

    Lines do not count, because a change moves what is below it. If a file had two equal findings and has three, the one
    that is new is at a line where there was none.
    """
    before: dict[_Identity, list[Finding]] = defaultdict(list)
    for finding in baseline.findings:
        before[_identify(finding)].append(finding)
    now: dict[_Identity, list[Finding]] = defaultdict(list)
    for finding in findings:
        now[_identify(finding)].append(finding)
    new: set[int] = set()
    for identity, group in now.items():
        lines = {finding.line for finding in before[identity]}
        excess = len(group) - len(before[identity])
        ordered = sorted(group, key=lambda finding: finding.line in lines)
        new |= {id(finding) for finding in ordered[: max(0, excess)]}
    return [finding for finding in findings if id(finding) in new]


def find_missing_tests(check: str, collected: int | None, baseline: Baseline) -> Finding | None:
    """Return a finding if fewer tests were collected than on the base branch."""
    before = baseline.collected_tests
    if before is None or (collected is not None and collected >= before):
        return None
    now = "no number of tests is reported" if collected is None else f"only {collected} tests are collected"
    return Finding(check, f"{now}, and there were {before}; keep all existing tests", code="collected")


def _identify(finding: Finding) -> _Identity:
    """Return a key that is equal for two findings of the same problem.

    A failed test is identified by its id, and a failed command that printed no location by its check: their messages
    contain addresses and times.
    """
    code = finding.code
    if code is not None and (".py" in code or code in (EXIT_CODE, STOPPED)):
        return finding.check, None, code, None
    return finding.check, finding.path, code, _NUMBER.sub("#", finding.message)
