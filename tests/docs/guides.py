"""The guides in docs/ as a test reads them: their code blocks, and what their Python examples say that they print."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs"


def blocks(text: str, language: str) -> list[str]:
    """The code blocks in a language, `""` for those that name none."""
    found: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for named, block in found if named == language]


def printed_by(example: str) -> str:
    """What an example is said to print: the comments behind its prints."""
    return "".join(f"{said}\n" for said in re.findall(r"^ *print\(.*\)  # (.*)$", example, re.MULTILINE))


def silent_prints(example: str) -> list[str]:
    """Prints of which nothing is said."""
    return [line for line in example.splitlines() if line.lstrip().startswith("print(") and ")  # " not in line]
