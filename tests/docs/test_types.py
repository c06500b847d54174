"""The Python examples of README and the guides pass strict type checkers: pyright's rules, and mypy (`make lint`).

The examples of a guide are one module, because they are run in one namespace; each example of README is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.guides import GUIDES, ROOT, blocks

pytestmark = pytest.mark.types
_VERSION = "3.11"
_SECONDS = 600
"""The bound of each checker, which takes some 20 s of one core without a cache."""


def examples_of(page: Path) -> list[str]:
    return blocks(page.read_text(), "python")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All examples, as modules."""
    folder = tmp_path_factory.mktemp("examples")
    for page in [*sorted(GUIDES.glob("*.md")), GUIDES / "clients" / "openai-python.md"]:
        if examples := examples_of(page):
            (folder / f"{page.stem.replace('-', '_')}.py").write_text("\n\n".join(examples))
    for number, example in enumerate(examples_of(ROOT / "README.md"), 1):
        (folder / f"readme_{number}.py").write_text(example)
    assert {"user_guide.py", "readme_1.py"} <= {file.name for file in folder.iterdir()}
    return folder


def checked(*words: str | Path, folder: Path) -> None:
    """Run a checker, a module of this Python."""
    command = [sys.executable, "-m", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_pass_pyright(folder: Path) -> None:
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "pythonVersion": _VERSION}))

    checked("basedpyright", "--pythonpath", sys.executable, ".", folder=folder)


def test_the_examples_pass_mypy(folder: Path, pytestconfig: pytest.Config) -> None:
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("mypy")

    checked("mypy", "--strict", "--python-version", _VERSION, "--cache-dir", cache, ".", folder=folder)
