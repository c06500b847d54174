"""The table of `make patches`: no damaged patch becomes another one, and the documentation has the current figures."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.bench.patches import COUNT, DAMAGES, Result, measure, write_table
from tests.docs.guides import ROOT


@pytest.fixture(scope="module")
def results() -> dict[str, Counter[Result]]:
    return measure()


def test_no_damaged_patch_is_accepted_as_another_patch(results: dict[str, Counter[Result]]) -> None:
    assert {name for name, counts in results.items() if counts["wrong"]} == set()
    assert all(counts.total() == COUNT for counts in results.values())


@pytest.mark.parametrize("name", [damage.name for damage in DAMAGES if damage.is_framing])
def test_wrong_framing_is_always_repaired_to_the_patch_itself(name: str, results: dict[str, Counter[Result]]) -> None:
    assert results[name]["as written"] + results[name]["repaired"] == COUNT


@pytest.mark.parametrize("name", [damage.name for damage in DAMAGES[1:] if not damage.is_framing])
def test_wrong_content_is_never_repaired(name: str, results: dict[str, Counter[Result]]) -> None:
    assert results[name]["repaired"] == 0
    assert results[name]["retried"] > COUNT // 2


def test_the_documentation_has_the_current_table(results: dict[str, Counter[Result]]) -> None:
    assert write_table(results) in (ROOT / "docs/guardrails.md").read_text()
