"""The commands of a Typer application are built once, and not for each command line of a test."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pytest


@cache
def _get_command(app: Any) -> Any:
    from typer.main import get_command  # imported by those that need it: an old typer warns with a new click

    return get_command(app)


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    if testing := sys.modules.get("typer.testing"):
        monkeypatch.setattr(testing, "_get_command", _get_command)
