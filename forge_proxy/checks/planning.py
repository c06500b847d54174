"""Which commands check a request: ruff's, those of the settings, of the repository, and of the submission."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.checks.ruff import SECONDS, Ruff
from forge_proxy.core.tasks.errors import CheckUnavailable
from forge_proxy.core.tasks.models import CheckCommand
from forge_proxy.processes.program import ProgramOutput

_ORDER = ("lint", "format", "types", "tests")
"""Checks with these names run in this order; the others follow as they are configured."""
_FILES = "{files}"
_MANY_FILES = 1000
"""With more files, a command gets the folder: the length of a command line is limited."""
_NOT_FOUND = re.compile(r"^check: .*?(?:not found|[Pp]ermission denied|No such file or directory)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """One command, and whether it executes code of the repository."""

    name: str
    command: tuple[str, ...]
    seconds: float
    executes_code: bool = True


def plan_ruff(ruff: Ruff, files: Sequence[str]) -> Sequence[PlannedCheck]:
    """Return ruff's checks of Python files."""
    named = list_files(files)
    return [plan_fixer("lint", ruff.lint(named)), plan_fixer("format", ruff.check_format(named))] if files else []


def plan_fixer(name: str, command: Sequence[str]) -> PlannedCheck:
    """Return a command of ruff, which reads and writes code and does not execute it."""
    return PlannedCheck(name, tuple(command), SECONDS, executes_code=False)


def plan_commands(commands: Sequence[CheckCommand], files: Sequence[str]) -> Sequence[PlannedCheck]:
    """Return configured commands with the changed files in place of `{files}`; without any, these are omitted."""
    named = list_files(files)
    return [
        PlannedCheck(
            command.name,
            tuple(word for part in command.run for word in (named if part == _FILES else (part,))),
            command.timeout,
        )
        for command in commands
        if files or _FILES not in command.run
    ]


def order_checks(checks: Sequence[PlannedCheck], skip: Sequence[str]) -> Sequence[PlannedCheck]:
    """Return the checks in the order in which they run. Of several with one name, only the last is run."""
    named = {check.name: check for check in checks if check.name not in skip}
    return sorted(named.values(), key=lambda check: _ORDER.index(check.name) if check.name in _ORDER else len(_ORDER))


def list_files(files: Sequence[str]) -> Sequence[str]:
    """Return the arguments that name files."""
    return files if len(files) <= _MANY_FILES else (".",)


def check_started(check: PlannedCheck, ended: ProgramOutput) -> None:
    """Raise `CheckUnavailable` if a program or a module is missing: the result would say nothing about the code."""
    text = f"{ended.err.decode('utf-8', 'replace')}\n{ended.out.decode('utf-8', 'replace')}"
    program, *arguments = check.command
    if ended.code in (126, 127) and _NOT_FOUND.search(text):
        raise CheckUnavailable(
            f"the check {check.name!r} cannot be run: {program} was not found. The sandbox has the programs of"
            " the system and of the repository's .venv and node_modules; add other folders to tasks.visible_paths"
        )
    module = arguments[1] if len(arguments) > 1 and arguments[0] == "-m" else None
    if ended.code == 1 and module and re.search(rf"No module named '?{re.escape(module)}'?$", text.strip()):
        raise CheckUnavailable(
            f"the check {check.name!r} cannot be run: {program} has no module {module}; install it into the"
            " .venv of the repository"
        )
