"""Tests of tasks name what they prove: `pytest -k d15_` selects requirement D15, `-k s_edits_` a part of tasks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tests

DECISIONS = (*range(1, 13), 15, 16, 17, 18, *range(21, 30), 33, 39, 40, 41, 42)
"""The requirements that tasks implement, listed in docs/decisions/0045-tasks.md."""
SECTIONS = (
    "core", "step", "modes", "context", "answer", "edits", "errors", "fanout", "tiers", "batch", "models", "modules",
    "example",
)  # fmt: skip
"""The parts of tasks."""
_NAMES = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def names() -> str:
    """Return the names of all tests, one a line."""
    files = Path(tests.__file__).parent.rglob("test_*.py")
    return "\n".join(name for file in files for name in _NAMES.findall(file.read_text()))


@pytest.mark.parametrize("proof", [*(f"d{number}" for number in DECISIONS), *(f"s_{name}" for name in SECTIONS)])
def test_each_decision_and_section_has_a_test_with_its_id(names: str, proof: str) -> None:
    assert re.search(rf"^test_(?:\w+_)?{proof}_", names, re.MULTILINE), f"no test is named test_{proof}_…"
