"""The attack suite itself: names are unique, and a successful attack is detected."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.attack.__main__ import all_attacks
from tests.attack.adversary_server import BEHAVIOURS
from tests.attack.attack import Attack, Drill, Result
from tests.attack.measuring import run_attack, run_drill
from tests.attack.table import write_into
from tests.attack.target import Target, ask, target
from tests.fakes.processes import ROOT, model_server


def test_each_attack_has_a_name_of_its_own() -> None:
    counts = Counter((attack.group, attack.name) for attack in all_attacks())

    assert [name for name, count in counts.items() if count > 1] == []


def test_every_behaviour_of_the_hostile_server_is_used() -> None:
    source = (ROOT / "tests/attack/backend.py").read_text()

    assert [name for name in BEHAVIOURS if name != "says" and f'"{name}"' not in source] == []


def test_an_attack_that_succeeds_is_reported_with_its_measurements() -> None:
    def get_in(target: Target) -> None:
        assert target.post(ask("says")).status == 401, "anybody is let in"

    with target({}, server=model_server) as running:
        result = run_attack(Attack("no key", "front door", get_in), running)

    assert result.breach == "anybody is let in"
    assert result.lag_ms is not None
    assert result.lag_ms > 0
    assert result.loop_ms is not None
    assert result.loop_ms > 0
    assert result.chat_ms is not None


def test_an_honest_client_that_fails_counts_as_a_breach() -> None:
    keys = {"FORGE_PROXY_SERVER__API_KEYS": "sk-other"}

    with target(keys, server=model_server) as running:
        result = run_attack(Attack("nothing", "load", lambda _: None), running)

    assert "the honest client failed" in (result.breach or "")


@pytest.mark.parametrize("fault", [AssertionError("why"), OSError("why")])
def test_a_drill_reports_what_it_raises(fault: Exception) -> None:
    def fail() -> None:
        raise fault

    assert "why" in (run_drill(Drill("fails", "faults", fail)).breach or "")


def test_the_table_replaces_the_one_before_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- attack table: begin -->\nold\n<!-- attack table: end -->\nafter\n")
    drill = Drill("a|b", "faults", lambda: None)
    results = [Result(drill, "x|y", 1.0)]

    write_into(page, results, "2026-11-22", [drill])

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| faults: a|b | **failed**: x\\|y | 1.0 | – | – | – | – | – | 2026-11-22 |" in text
    assert "0 of 1 held" in text


def test_some_attacks_replace_their_own_rows(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- attack table: begin --><!-- attack table: end -->")
    first, second, gone = (Drill(name, "faults", lambda: None) for name in ("first", "second", "gone"))
    write_into(page, [Result(gone, None, 1.0), Result(second, "why", 2.0)], "2026-11-22", [gone, second])

    write_into(page, [Result(first, None, 3.0)], "2026-11-23", [first, second])

    rows = [line for line in page.read_text().splitlines() if line.startswith("| faults")]
    assert [row.split(" | ")[0] for row in rows] == ["| faults: first", "| faults: second"]
    assert [row.split(" | ")[-1] for row in rows] == ["2026-11-23 |", "2026-11-22 |"]
    assert "1 of 2 held" in page.read_text()


def test_the_page_of_the_project_has_a_place_for_the_table() -> None:
    text = (ROOT / "docs/security.md").read_text()

    assert text.index("<!-- attack table: begin -->") < text.index("<!-- attack table: end -->")
