"""`tasks.ports.Checks`: fixers and checks of a repository, and which of their findings are new."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from forge_proxy.checks.bubblewrap import BubblewrapSandbox
from forge_proxy.checks.bytecode import remove_stale_bytecode
from forge_proxy.checks.commands import CommandLimits, CommandRunner, Workplace
from forge_proxy.checks.planning import (
    PlannedCheck,
    check_started,
    order_checks,
    plan_commands,
    plan_fixer,
    plan_ruff,
)
from forge_proxy.checks.ruff import CONFIGURED, DEFAULT_SETTINGS, Ruff, choose_ruff, is_formatted, python_files
from forge_proxy.checks.sources import SourceFiles, find_files, read_contents, restore_contents
from forge_proxy.checks.unsandboxed import Unsandboxed
from forge_proxy.core.tasks.check_output.baseline import find_missing_tests, find_new
from forge_proxy.core.tasks.check_output.check_file import CHECK_FILE, CheckFile, parse_check_file
from forge_proxy.core.tasks.check_output.read_output import STOPPED, CheckOutput, CheckReport, read_check_output
from forge_proxy.core.tasks.check_output.settings import SETTINGS_FILES, find_changed_settings
from forge_proxy.core.tasks.errors import CheckUnavailable
from forge_proxy.core.tasks.findings import Baseline, Finding, ValidationResult
from forge_proxy.core.tasks.models import CheckCommand, ValidationConfig
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.processes.program import ProgramOutput

_MAX_DETAILS = 4000


class CheckedRequest(Protocol):
    """What is checked; `tasks.ports.CheckRequest` is one."""

    @property
    def worktree(self) -> Worktree: ...
    @property
    def files(self) -> tuple[str, ...]: ...
    @property
    def config(self) -> ValidationConfig: ...
    @property
    def is_part(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The settings of the daemon for checks."""

    fix: tuple[CheckCommand, ...] = ()
    checks: tuple[CheckCommand, ...] = ()
    limits: CommandLimits = field(default_factory=CommandLimits)
    is_sandboxed: bool = True
    visible: tuple[Path, ...] = ()
    """Further paths that commands in the sandbox may read."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one check has found, also what the base branch has."""

    check: PlannedCheck
    report: CheckReport
    details: str
    seconds: float


class RepositoryChecks:
    """Runs the fixers and checks of repositories."""

    def __init__(self, files: SourceFiles, settings: CheckSettings) -> None:
        self._files = files
        self._settings = settings
        self._direct = Unsandboxed(settings.limits)
        self._sandbox = BubblewrapSandbox(settings.limits, settings.visible)

    async def fix(self, request: CheckedRequest) -> None:
        """See `Checks`."""
        worktree = request.worktree
        if configured := (await self._read_check_file(worktree)).fix or self._settings.fix:
            for fixer in plan_commands(configured, await find_files(worktree, request.files)):
                await self._run(fixer, worktree)
            return
        if files := await find_files(worktree, python_files(request.files)):
            ruff = await self._choose_ruff(worktree)
            await self._run(plan_fixer("lint", ruff.fix(files)), worktree)
            if formatted := await self._find_formatted(worktree, ruff, files):
                await self._run(plan_fixer("format", ruff.format(formatted)), worktree)

    async def record_baseline(self, request: CheckedRequest) -> Baseline:
        """See `Checks`."""
        outcomes = await self._run_all(request)
        findings = tuple(finding for outcome in outcomes for finding in outcome.report.findings)
        return Baseline(findings, _count_tests(outcomes))

    async def run(self, request: CheckedRequest, baseline: Baseline) -> Sequence[ValidationResult]:
        """See `Checks`.

        Results of the checks `settings` and `sources` are there only if they have failed: a changed setting of a tool,
        and a check that has changed the files that it checks.
        """
        before = await read_contents(self._files, request.worktree, request.files)
        outcomes = await self._run_all(request)
        results = [_to_result(outcome, baseline) for outcome in outcomes]
        own = [
            *await self._find_changed_settings(request),
            *await restore_contents(self._files, request.worktree, before),
            *(() if request.is_part else _find_missing_tests(outcomes, baseline)),
        ]
        failed = [
            ValidationResult(one.check, False, findings=(one,)) for one in own if one.check not in request.config.skip
        ]
        return [*results, *failed]

    async def _run_all(self, request: CheckedRequest) -> Sequence[_Outcome]:
        roots = request.worktree.path, request.worktree.repository
        outcomes: list[_Outcome] = []
        planned = await self._plan(request)
        if any(check.executes_code for check in planned):
            await asyncio.to_thread(remove_stale_bytecode, Path(request.worktree.path))
        for check in planned:
            began = time.monotonic()
            ended = await self._run(check, request.worktree)
            out, err = ended.out.decode("utf-8", "replace"), ended.err.decode("utf-8", "replace")
            output = CheckOutput(ended.code, out, err, ended.stopped)
            report = await asyncio.to_thread(read_check_output, check.name, output, roots)
            details = f"{out}\n{err}".strip()[-_MAX_DETAILS:]
            outcomes.append(_Outcome(check, report, details, time.monotonic() - began))
        return outcomes

    async def _plan(self, request: CheckedRequest) -> Sequence[PlannedCheck]:
        """Return the checks in their order. A configured one takes the place of ruff's with the same name."""
        file = await self._read_check_file(request.worktree)
        files = await find_files(request.worktree, request.files)
        commands = (*self._settings.checks, *file.checks, *request.config.commands)
        ruff = await self._choose_ruff(request.worktree)
        checks = [*plan_ruff(ruff, python_files(files)), *plan_commands(commands, files)]
        ordered = order_checks(checks, request.config.skip)
        return [check for check in ordered if not (request.is_part and check.executes_code)]

    async def _run(self, check: PlannedCheck, worktree: Worktree) -> ProgramOutput:
        runner = await self._choose_runner(check)
        readable = () if check.executes_code else (Path(check.command[0]).parent, DEFAULT_SETTINGS)
        workplace = Workplace(Path(worktree.path), Path(worktree.repository), readable)
        ended = await runner.run(check.command, workplace, check.seconds)
        check_started(check, ended)
        return ended

    async def _choose_runner(self, check: PlannedCheck) -> CommandRunner:
        if not self._settings.is_sandboxed:
            return self._direct
        try:
            await self._sandbox.probe()
        except CheckUnavailable:
            if check.executes_code:
                raise
            return self._direct
        return self._sandbox

    async def _read_check_file(self, worktree: Worktree) -> CheckFile:
        """Return the commands of the repository as committed, never as the task has changed them."""
        committed = await self._read_committed(worktree, (CHECK_FILE,))
        return parse_check_file(committed.get(CHECK_FILE))

    async def _choose_ruff(self, worktree: Worktree) -> Ruff:
        committed = await self._read_committed(worktree, CONFIGURED)
        return await asyncio.to_thread(choose_ruff, Path(worktree.repository), committed)

    async def _find_formatted(self, worktree: Worktree, ruff: Ruff, files: Sequence[str]) -> Sequence[str]:
        """Return the new files and those that were formatted before.

        The change would be hard to find in a review among the new lines of a file that nobody has formatted.
        """
        before = await self._read_committed(worktree, files)
        folder = Path(worktree.path)
        return [
            path for path in files if path not in before or await is_formatted(ruff, folder, path, before[path])
        ]  # fmt: skip

    async def _find_changed_settings(self, request: CheckedRequest) -> Sequence[Finding]:
        paths = sorted(set(request.files) & set(SETTINGS_FILES))
        before = await self._read_committed(request.worktree, paths)
        contents = await read_contents(self._files, request.worktree, paths)
        now = {path: content.data for path, content in contents.items()}
        return [one for path in paths for one in find_changed_settings(path, before.get(path), now.get(path))]

    async def _read_committed(self, worktree: Worktree, paths: Iterable[str]) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for path in paths:
            content = await self._files.read_committed(worktree.repository, worktree.base_commit, path)
            if content is not None:
                found[path] = content
        return found


def _to_result(outcome: _Outcome, baseline: Baseline) -> ValidationResult:
    new = tuple(find_new(outcome.report.findings, baseline))
    return ValidationResult(outcome.check.name, not new, outcome.details if new else "", new, outcome.seconds)


def _count_tests(outcomes: Sequence[_Outcome]) -> int | None:
    counts = [outcome.report.collected_tests for outcome in outcomes]
    return sum(count for count in counts if count is not None) if any(count is not None for count in counts) else None


def _find_missing_tests(outcomes: Sequence[_Outcome], baseline: Baseline) -> Sequence[Finding]:
    """Return a finding if there are fewer tests than before, unless a command was stopped before it reported them."""
    if any(finding.code == STOPPED for outcome in outcomes for finding in outcome.report.findings):
        return ()
    missing = find_missing_tests("tests", _count_tests(outcomes), baseline)
    return () if missing is None else (missing,)
