"""Inputs on which the rescue parser once failed, found by `python -m tests.fuzz`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.checks import faults_of
from tests.fuzz.texts import mutated, seeds

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.txt"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_no_known_seed_fails(path: Path) -> None:
    assert [*faults_of(path.read_bytes().decode(), random.Random(1))] == []


@pytest.mark.long
def test_a_short_run_finds_nothing() -> None:
    rng = random.Random(20261121)
    known = seeds()

    for _ in range(150):
        text = "".join(mutated(rng, known))
        assert [*faults_of(text, rng)] == [], text
