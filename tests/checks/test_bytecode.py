"""Cached bytecode of an earlier version of a source is not executed by checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_proxy.checks.bytecode import remove_stale_bytecode


def run(folder: Path) -> str:
    """Import a module, whose bytecode is then cached, and return its value."""
    command = [sys.executable, "-c", "import pkg.module; print(pkg.module.VALUE)"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True).stdout.strip()


def test_a_source_written_again_in_the_same_second_is_compiled_again(tmp_path: Path) -> None:
    source = tmp_path / "pkg" / "module.py"
    source.parent.mkdir()
    for value in ("1", "2"):
        source.write_text(f"VALUE = {value}\n")
        os.utime(source, (1_000_000_000.2, 1_000_000_000.2))
        for cached in source.parent.rglob("*.pyc"):
            os.utime(cached, (1_000_000_000.7, 1_000_000_000.7))
        if value == "2":
            assert run(tmp_path) == "1"  # what would be checked
            os.utime(next(source.parent.rglob("*.pyc")), (1_000_000_000.7, 1_000_000_000.7))
            remove_stale_bytecode(tmp_path)

        assert run(tmp_path) == value


def test_bytecode_that_is_not_stale_stays(tmp_path: Path) -> None:
    source = tmp_path / "pkg" / "module.py"
    source.parent.mkdir()
    source.write_text("VALUE = 1\n")
    os.utime(source, (1_000_000_000, 1_000_000_000))
    run(tmp_path)

    remove_stale_bytecode(tmp_path)

    assert [*source.parent.rglob("module.*.pyc")]


def test_symlinks_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside" / "__pycache__", tmp_path / "inside"
    outside.mkdir(parents=True)
    inside.mkdir()
    (outside / "a.cpython-311.pyc").touch()
    (outside.parent / "a.py").touch()
    (inside / "__pycache__").symlink_to(outside)
    (inside / "a.py").touch()
    (inside / "linked").symlink_to(outside.parent)

    remove_stale_bytecode(inside)

    assert (outside / "a.cpython-311.pyc").exists()


@pytest.mark.parametrize("name", ["a.cpython-311.pyc", "notes.txt"])
def test_files_without_a_source_stay(name: str, tmp_path: Path) -> None:
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    (cache / name).touch()

    remove_stale_bytecode(tmp_path)

    assert (cache / name).exists()
