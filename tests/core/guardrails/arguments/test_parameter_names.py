"""An unknown parameter name is resolved if the match is unambiguous."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.guardrails.arguments.parameter_names import is_near, match_names, normalize, resolve_parameter
from tests.properties import TEXTS, examples

NAMES = st.lists(TEXTS | st.text("abAB_-1", max_size=6), max_size=5, unique=True)


@pytest.mark.parametrize("said", ["filePath", "file_path", "File-Path", "FILE PATH", "filepath"])
def test_names_are_equal_ignoring_case_and_separators(said: str) -> None:
    assert resolve_parameter(said, ["file_path", "mode"]) == "file_path"
    assert [*match_names([said], ["file_path", "mode"], [])] == [(said, "file_path", True)]


@pytest.mark.parametrize(
    ("one", "other", "slip"),
    [
        ("city", "citi", True),
        ("city", "ciyt", True),
        ("city", "citty", True),
        ("locaton", "location", True),
        ("query", "querry", True),
        ("tags", "tag", False),
        ("file_path", "filepaht", True),
        ("city", "ctiyy", False),
        ("city", "town", False),
        ("a", "b", False),
        ("lat", "lon", False),
        ("value1", "value2", False),
        ("value1", "value", False),
        ("city", "City", False),
    ],
)
def test_names_with_one_typo_are_near_and_with_two_are_not(one: str, other: str, slip: bool) -> None:
    assert is_near(normalize(one), normalize(other)) is slip
    assert is_near(normalize(other), normalize(one)) is slip


@pytest.mark.parametrize(
    ("said", "missing", "nearly", "meant"),
    [
        (["City"], ["city", "town"], [], {"City": "city"}),
        (["citi"], ["city"], [], {}),
        (["citi"], ["city"], ["city"], {"citi": "city"}),
        (["City", "CITY"], ["city"], ["city"], {}),
        (["filePath"], ["file_path", "file-path"], ["file_path", "file-path"], {}),
        (["dates"], ["date", "dated"], ["date", "dated"], {}),
        (["City", "citi"], ["city"], ["city"], {"City": "city"}),
        (["_"], ["-"], ["-"], {}),
        (["x" * 1000], ["X" * 1000], [], {}),
    ],
)
def test_a_name_is_matched_if_the_match_is_unique_in_both_directions(
    said: list[str], missing: list[str], nearly: list[str], meant: dict[str, str]
) -> None:
    assert {one: name for one, name, _ in match_names(said, missing, nearly)} == meant


@examples(300)
@given(said=NAMES, missing=NAMES)
def test_no_parameter_is_matched_twice(said: list[str], missing: list[str]) -> None:
    matched = [*match_names(said, missing, missing)]

    assert len({one for one, _, _ in matched}) == len({name for _, name, _ in matched}) == len(matched)
    assert all(one in said and name in missing for one, name, _ in matched)
    assert all((normalize(one) == normalize(name)) is sure for one, name, sure in matched)
