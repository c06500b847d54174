"""The commands of a Typer application are built once, and not for each command line of a test."""

from __future__ import annotations

from functools import cache

import pytest
import typer.testing
from typer.main import get_command

_get_command = cache(get_command)


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer.testing, "_get_command", _get_command)
