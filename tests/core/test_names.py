"""Which offered tool a model meant by a name."""

from __future__ import annotations

import pytest

from forge_proxy.core.names import resolve_name

OFFERED = ("get_weather", "Search", "search", "tools.list", "Notes.Add", "a-b/c.d")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("get_weather", "get_weather"),
        ("GET_Weather", "get_weather"),
        (" get_weather\n", "get_weather"),
        ("functions.get_weather", "get_weather"),
        ("default_api.Get_Weather", "get_weather"),
        ("functions:get_weather", "get_weather"),
        ("Search", "Search"),
        ("search", "search"),
        ("tools.list", "tools.list"),
        ("functions.tools.list", "tools.list"),
        ("tools.List", "tools.list"),
        ("notes.add", "Notes.Add"),
        ("a-b/c.d", "a-b/c.d"),
    ],
)
def test_a_name_is_known_but_for_case_and_a_usual_prefix(said: str, meant: str) -> None:
    assert resolve_name(said, OFFERED) == meant


@pytest.mark.parametrize(
    "said",
    ["SEARCH", "weather", "get_weather2", "get-weather", "", " ", "functions.", "functions.nothing", "my.get_weather"],
)
def test_a_name_that_is_unclear_or_unknown_is_none(said: str) -> None:
    assert resolve_name(said, OFFERED) is None


def test_a_tool_that_is_offered_twice_is_one_tool() -> None:
    assert resolve_name("ADD", ["add", "add"]) == "add"
