"""The guide to evals holds: its commands are understood, its file can be read, its tables name what there is."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from forge_proxy.cli.app import app
from forge_proxy.cli.evals.batch import BUILT_IN, find_models, read_batch
from forge_proxy.core.rates import Rate
from forge_proxy.evals.ablation import PRESETS
from forge_proxy.evals.reports.table import format_interval
from tests.evals.records import record, unfinished

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "evals.md").read_text()
COMMANDS = [line.partition("#")[0].strip() for line in re.findall(r"^ {4}(forge-proxy eval .*)$", GUIDE, re.MULTILINE)]


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_is_understood(line: str) -> None:
    _, group, name, *words = shlex.split(line)
    command = typer.main.get_command(app)
    for part in (group, name):
        command = command.get_command(typer.Context(command), part)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
        assert command is not None

    command.make_context(name, list(words), resilient_parsing=False)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.split()[2] in ("list", "report", "compare")])
def test_each_command_that_only_looks_is_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [record("reforged", planned=1), unfinished("bare", planned=1)]
    for file in ("evals.jsonl", "before.jsonl", "after.jsonl", "quick.jsonl"):
        Path(file).write_text("".join(f"{run.model_dump_json()}\n" for run in runs))

    done = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)

    assert done.exit_code == 0, done.output


def test_the_file_of_configurations_can_be_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"^( {4}evals:\n(?: {4}.*\n)+)", GUIDE, re.MULTILINE)
    file = tmp_path / "evals.yaml"
    file.write_text(textwrap.dedent(example).replace("models/", f"{tmp_path}/"))

    own = read_batch(file)

    (subject,) = find_models(list(own), own, None)
    assert (subject.settings.backend.tools, subject.think) == ("prompt", False)


def test_the_tables_name_what_there_is() -> None:
    named = set(re.findall(r"`([\w-]+)`", GUIDE))

    assert set(PRESETS) <= named
    assert {name for name in BUILT_IN if not name.endswith("-any")} <= named


@pytest.mark.parametrize(("hits", "of"), [(9, 10), (45, 50), (90, 100)])
def test_the_examples_of_intervals_are_right(hits: int, of: int) -> None:
    assert f"`{format_interval(Rate(hits, of))}`" in GUIDE
