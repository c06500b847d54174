"""The starting texts: golden files, seeds, and fragments of markup."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.scanned import PIECES

_BEGINNINGS = ("  ", "\n", "Action: ", "Call: ", "call: ", "assistant to=", "TOOL_CALL\n", "so it is ")
"""Beginnings of long texts that announce a call."""
_HERE = Path(__file__).parent
_GOLDEN = _HERE.parent / "core" / "rescue" / "golden"


def seeds() -> list[list[str]]:
    """Each text to begin with, in parts."""
    texts = [path.read_bytes().decode() for path in sorted((_HERE / "seeds").glob("*.txt"))]
    for path in sorted(_GOLDEN.glob("*.txt")):
        texts += re.findall(r"(?ms)^--- said\n(.*?)(?=^--- |^=== |\Z)", path.read_text(encoding="utf-8"))
    return [re.findall(r"\w+|\s+|[^\w\s]", text) for text in texts if text]


def mutated(rng: random.Random, known: list[list[str]]) -> list[str]:
    """A new text, in parts: pieces at random, a few of them repeated up to 300 times, or known texts cut, spliced,
    doubled and mixed with pieces.
    """
    kind = rng.random()
    if kind < 0.1:
        few = [rng.choice((*PIECES, *_BEGINNINGS)) for _ in range(rng.randint(2, 6))]
        return [rng.choice(few) * rng.choice((1, 1, 2, 40, 300)) for _ in range(rng.randint(2, 8))]
    if kind < 0.5 or not known:
        return [rng.choice(PIECES) for _ in range(rng.randint(1, 10))]
    parts = list(rng.choice(known))
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(parts))
        to = min(len(parts), at + rng.randint(0, 6))
        match rng.randint(0, 4):
            case 0:
                parts[at:to] = []
            case 1:
                parts[at:at] = [rng.choice(PIECES)]
            case 2:
                parts[at:at] = parts[at:to]
            case 3:
                parts = parts[:at]
            case _:
                other = rng.choice(known)
                begin = rng.randint(0, len(other))
                parts = parts[:at] + other[begin : begin + 30]
    return parts
