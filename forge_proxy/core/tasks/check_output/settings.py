"""Settings of linters and test runners, which a task may not loosen to pass its checks."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

from forge_proxy.core.tasks.findings import Finding

SETTINGS_FILES = (
    "tool-config/ruff.toml",
    "ruff.toml",
    ".ruff.toml",
    "pyproject.toml",
    "pytest.ini",
    "pytest.toml",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
    "mypy.ini",
    ".mypy.ini",
    "pyrightconfig.json",
    "tsconfig.json",
)
"""Files whose content decides what the checks find."""
_TABLES = ("ruff", "pytest", "mypy", "pyright", "basedpyright", "coverage")


def find_changed_settings(path: str, before: bytes | None, after: bytes | None) -> Sequence[Finding]:
    """Return a finding for each part of a settings file that differs from the base branch.

    In `pyproject.toml`, these are tables of tools: a task may add a dependency.
    """
    if before == after:
        return ()
    if path != "pyproject.toml":
        return (_finding(path, "the settings of the checks differ from the base branch; restore the file"),)
    old, new = _read_tables(before), _read_tables(after)
    if new is None:
        return () if old is None else (_finding(path, "the file is not valid TOML"),)
    return [
        _finding(path, f"[tool.{name}] differs from the base branch; restore the settings of the checks")
        for name in _TABLES
        if (old or {}).get(name) != new.get(name)
    ]


def _finding(path: str, message: str) -> Finding:
    return Finding("settings", message, path)


def _read_tables(content: bytes | None) -> dict[str, object] | None:
    """Return the `tool` tables; None if the file is not valid."""
    try:
        return tomllib.loads((content or b"").decode()).get("tool", {})
    except ValueError:
        return None
