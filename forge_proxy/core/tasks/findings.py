"""Results of checks: findings with their locations, and what the base branch had before a task began."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a check. Lines and columns count from 1."""

    check: str
    """The name of the check, such as `lint`, `format`, `types`, `tests`, `edits` or `scope`."""
    message: str
    path: str | None = None
    """Relative to the repository."""
    line: int | None = None
    column: int | None = None
    code: str | None = None
    """The rule, such as `F401`, or the id of a test."""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return " ".join(part for part in (place and f"{place}:", self.code, self.message) if part)


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of one check."""

    check: str
    passed: bool
    details: str = ""
    """The end of the check's output, or why it could not be run."""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the checks found on the base branch, once for each task. Only other findings are the task's own."""

    findings: tuple[Finding, ...] = ()
    collected_tests: int | None = None
    """The number of tests that were collected; None if no test command reports it."""
