"""The Makefile's first run, killed in each of its steps: the next make completes it. pip and venv are fakes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.guides import ROOT

_PYTHON = """#!/bin/sh
# Stands in for Python: keeps a list of the steps, and is killed in the step that $KILLED_IN names.
case "$*" in
  "-m venv"*) step=venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
  *"--upgrade"*) step=pip;;
  *"--group dev"*) step=develop;;
  *"install"*) step=install;;
  *) exit 0;;
esac
echo "$step" >> steps
if [ "$step" = "$KILLED_IN" ]; then kill -9 $PPID; exit 1; fi
"""
_STEPS = ["venv", "pip", "install", "develop"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    python.write_text(_PYTHON)
    python.chmod(0o755)
    return tmp_path


def make(folder: Path, killed_in: str = "") -> int:
    words = ["make", "--silent", f"PYTHON={folder}/python", ".venv/.developed"]
    return subprocess.run(
        words, cwd=folder, env={"PATH": "/usr/bin:/bin", "KILLED_IN": killed_in}, capture_output=True, check=False
    ).returncode


def steps(folder: Path) -> list[str]:
    done = (folder / "steps").read_text().split()
    (folder / "steps").write_text("")
    return done


@pytest.mark.parametrize("step", _STEPS)
def test_a_step_that_was_killed_is_repeated_by_the_next_make(folder: Path, step: str) -> None:
    killed = make(folder, step)
    before = steps(folder)

    assert killed != 0
    assert before[-1] == step
    assert make(folder) == 0
    begins_with = "venv" if step == "pip" else step  # a half-made environment is made again
    assert steps(folder) == _STEPS[_STEPS.index(begins_with) :]


def test_an_environment_from_before_there_were_stamps_stays(folder: Path) -> None:
    make(folder)
    steps(folder)
    (folder / ".venv" / ".created").unlink()

    assert make(folder) == 0
    assert steps(folder) == []


def test_what_is_complete_is_not_repeated(folder: Path) -> None:
    make(folder)
    steps(folder)

    assert make(folder) == 0
    assert steps(folder) == []


def test_the_files_that_the_makefile_names_exist() -> None:
    named = re.findall(r"\btests(?:/\w+)+\.py", (ROOT / "Makefile").read_text())

    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
