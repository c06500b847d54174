"""Reads the output of pytest: failed tests with the location and the message, and how many tests there were."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from forge_proxy.core.tasks.check_output.places import relative_path
from forge_proxy.core.tasks.findings import Finding

_COLLECTED = re.compile(r"^(?:collected (\d+) items?|\d+ workers? \[(\d+) items?\])", re.MULTILINE)
_DESELECTED = re.compile(r"^collected \d+ items?.* / (\d+) deselected", re.MULTILINE)
_SUMMARY = re.compile(r"^=* ?(?:\d+ [a-z]+(?:, )?)+ in [\d.]+s", re.MULTILINE)
_PROGRESS = re.compile(r"^([.FEsxX]+) +\[ *\d+%\]$", re.MULTILINE)
"""A line of the tests that have run. With `-qq` there is no summary."""
_COUNTED = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)\b")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (?P<id>\S+\.py(?:::.+?)?)(?: - (?P<text>.*))?$", re.MULTILINE)
_SECTION = re.compile(r"^_{3,} (?:ERROR (?:at \w+ of|collecting) )?(?P<name>.+?) _{3,}$", re.MULTILINE)
_BROKEN = re.compile(r"^_{3,} ERROR at setup of ", re.MULTILINE)
_PLACE = re.compile(r"^(?P<path>[^\s:][^:\n]*\.py):(?P<line>\d+)(?:: .*)?$", re.MULTILINE)
_REASON = re.compile(r"^E {3}\s*(?P<text>.+)$", re.MULTILINE)
_MAX_REASON_LINES = 8


def is_pytest(output: str) -> bool:
    """Whether an output is pytest's."""
    is_found = any(pattern.search(output) for pattern in (_SUMMARY, _COLLECTED, _PROGRESS))
    return is_found or "short test summary info" in output


def count_tests(output: str) -> int | None:
    """Return how many tests were collected and not deselected; None if the output does not report it."""
    if match := _COLLECTED.search(output):
        collected = int(match[1] or match[2])
        deselected = _DESELECTED.search(output)
        return collected - (int(deselected[1]) if deselected else 0)
    summaries = list(_SUMMARY.finditer(output))
    if not summaries and (lines := _PROGRESS.findall(output)):
        return sum(map(len, lines))
    if not summaries:
        return 0 if re.search(r"^=* ?no tests ran", output, re.MULTILINE) else None
    counted = _COUNTED.findall(summaries[-1][0])
    broken = len(_BROKEN.findall(output))  # an error during collection is not a test
    return broken + sum(int(number) for number, kind in counted if not kind.startswith("error"))


def read_pytest_findings(check: str, output: str, roots: Sequence[str]) -> Sequence[Finding]:
    """Return the failed tests, each with the location and the reason that pytest prints for it."""
    sections = _split_sections(output)
    findings: list[Finding] = []
    for match in {match["id"]: match for match in _FAILED.finditer(output)}.values():
        file, _, name = match["id"].partition("::")
        section = sections.get(name.replace("::", ".")) or sections.get(file) or ""
        place = _last_place(section, file, roots)
        findings.append(
            Finding(
                check,
                _find_reason(section) or match["text"] or "the test failed",
                place[0] or relative_path(file, roots),
                place[1],
                code=match["id"],
            )
        )
    return findings


def _split_sections(output: str) -> Mapping[str, str]:
    """Return the texts of the failures by their titles, such as `TestA.test_b`."""
    heads = list(_SECTION.finditer(output))
    starts = [head.start() for head in heads]
    ends = [*starts[1:], len(output)][: len(heads)]
    return {head["name"]: output[head.end() : end] for head, end in zip(heads, ends, strict=True)}


def _find_reason(section: str) -> str:
    lines = [match["text"] for match in _REASON.finditer(section)]
    return "\n".join(lines[:_MAX_REASON_LINES])


def _last_place(section: str, file: str, roots: Sequence[str]) -> tuple[str | None, int | None]:
    """Return the last location in a file of the repository, preferably one that is not the test itself."""
    places = [(relative_path(match["path"], roots), int(match["line"])) for match in _PLACE.finditer(section)]
    inside = [place for place in places if place[0] is not None and "site-packages/" not in place[0]]
    others = [place for place in inside if place[0] != relative_path(file, roots)]
    return (others or inside or [(None, None)])[-1]
