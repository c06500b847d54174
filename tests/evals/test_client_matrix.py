"""The matrix of clients: enough pairs in each cell, and a section of the guide that can be written again."""

from __future__ import annotations

import pytest

from forge_proxy.evals.clients import ClientKind
from forge_proxy.evals.record import RunRecord
from tests.bench.client_matrix import BEGIN, KINDS, build_plan, markdown, write_section
from tests.evals.records import configuration, record, unfinished


def cell(preset: str, client: ClientKind, *, is_right: bool) -> list[RunRecord]:
    config = configuration(preset, surface="proxy", client=client, temperature=1.0)
    make = record if is_right else unfinished
    return [make(run=run, tags=("quick",), config=config) for run in range(2)]


@pytest.mark.parametrize("tag", ["quick", "generated"])
def test_each_cell_has_at_least_300_pairs(tag: str) -> None:
    plan = build_plan(tag, 1.0, None)

    assert len(plan.scenarios) * plan.runs >= 300
    assert plan.clients == KINDS
    assert {"bare", "reforged"} <= {preset.name for _, preset in plan.cells}


def test_a_preset_is_compared_with_bare_for_the_same_client() -> None:
    records = [
        *cell("bare", "text", is_right=True),
        *cell("reforged", "text", is_right=True),
        *cell("bare", "terminal", is_right=False),
        *cell("reforged", "terminal", is_right=True),
    ]

    rows = [[word.strip() for word in line.strip("|").split("|")] for line in markdown(records).splitlines()[4:]]

    assert [(row[0], row[2], row[5]) for row in rows] == [
        ("text", "`bare`", ""),
        ("text", "`reforged`", "+0"),
        ("terminal", "`bare`", ""),
        ("terminal", "`reforged`", "+100"),
    ]


def test_an_incomplete_cell_is_left_out() -> None:
    assert markdown(cell("bare", "text", is_right=True)[:1]) == "No cell is complete yet."


def test_the_section_is_replaced_and_the_rest_of_the_page_is_kept() -> None:
    once = write_section("# Evals\n", "old")
    twice = write_section(f"{once}After.\n", "new")

    assert twice.startswith("# Evals\n")
    assert twice.endswith("After.\n")
    assert "new" in twice
    assert "old" not in twice
    assert twice.count(BEGIN) == 1
