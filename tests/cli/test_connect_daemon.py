"""`forge-proxy connect --write --check` before a real daemon."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from forge_proxy.cli.app import app
from tests.fakes.processes import Process, daemon


@pytest.fixture(scope="module")
def process() -> Generator[Process]:
    with daemon("--backend", "embedded") as running:
        yield running


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for variable in ("FORGE_API_KEY", "FORGE_PROXY_KEY"):
        monkeypatch.delenv(variable, raising=False)


def connect(*words: str) -> str:
    """Run the command, and return what it prints."""
    done = CliRunner().invoke(app, ["connect", *words, "--write", "--check"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_variables_that_were_just_printed_count_in_the_same_command(process: Process) -> None:
    assert "reply" in connect("zed", "--url", process.url)


def test_a_configuration_is_written_and_checked_in_one_command(process: Process) -> None:
    printed = connect("opencode", "--url", process.url)

    assert f"POST {process.url}/v1/chat/completions, model tiny-tools" in printed
    assert "reply" in printed
