"""Placeholders for omitted code, and comments that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

import forge_proxy
from forge_proxy.core.tasks.edits.elision import find_elision

PLACEHOLDERS = [
    "# ... rest of the code unchanged",
    "    # ...",
    "# … existing code …",
    "// ... existing code ...",
    "// rest of the file",
    "/* ... other methods ... */",
    "<!-- rest of the document remains the same -->",
    "# existing implementation here",
    "# (rest of the function unchanged)",
    "# The rest of the class stays the same.",
    "-- remaining code omitted",
    "{/* ... rest of the code ... */}",
    "... (rest of the file unchanged)",
    "# Other methods remain unchanged",
    "# remaining code...",
    "# ... other imports",
    "# code unchanged",
]
COMMENTS = [
    "...",
    "def f(self) -> int: ...",
    "# loading existing files...",
    "# Other imports",
    "# the original file is over http",
    "# wait for other requests...",
    "# Previous content is kept by the caller",
    "const all = [...rest]",
    "x = f(...)",
    "# the rest is sent later",
    "# 1, 2, ..., n",
    "print('... rest of')",
]


@pytest.mark.parametrize("line", PLACEHOLDERS)
def test_s_edits_a_new_placeholder_is_found(line: str) -> None:
    assert find_elision("a = 1\n", f"a = 2\n{line}\nb = 3\n") == line.strip()


@pytest.mark.parametrize("line", PLACEHOLDERS)
def test_a_placeholder_that_the_file_had_is_none(line: str) -> None:
    assert find_elision(f"a = 1\n    {line}\n", f"a = 2\n{line}\n") is None


@pytest.mark.parametrize("line", COMMENTS)
def test_an_ordinary_line_is_no_placeholder(line: str) -> None:
    assert find_elision("", line) is None


def test_no_source_file_of_the_package_has_one() -> None:
    sources = [path for path in Path(forge_proxy.__file__).parent.rglob("*.py") if path.name != "elision.py"]

    found = {path.name: line for path in sources if (line := find_elision("", path.read_text()))}

    assert found == {}
    assert len(sources) > 300
