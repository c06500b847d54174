"""Resolution of a tool name as a model writes it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest

from forge_proxy.core import tool_names as names_module
from forge_proxy.core.bounded_cache import cache_results
from forge_proxy.core.rescue import StreamingParser, rescue
from forge_proxy.core.tool_names import OfferedNames, resolve_name

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
def test_a_name_is_resolved_ignoring_case_and_common_prefixes(said: str, meant: str) -> None:
    assert resolve_name(said, OFFERED) == meant


@pytest.mark.parametrize(
    "said",
    ["SEARCH", "weather", "get_weather2", "get-weather", "", " ", "functions.", "functions.nothing", "my.get_weather"],
)
def test_an_ambiguous_or_unknown_name_is_none(said: str) -> None:
    assert resolve_name(said, OFFERED) is None


def test_a_tool_offered_twice_is_one_tool() -> None:
    assert resolve_name("ADD", ["add", "add"]) == "add"


def test_the_memory_of_many_long_names_is_proportional_to_their_length() -> None:
    names = tuple(f"{number}{'n' * 5_000}" for number in range(40))

    tracemalloc.start()
    try:
        rescue("Hi. <tool_call>", (*names, "n" * 40_000))
        StreamingParser((*names, "n" * 40_000)).feed("nnn")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 20_000_000


def test_a_tool_with_a_long_name_is_called_by_markup_that_names_it() -> None:
    name = "n" * 300

    assert [call.call.tool for call in rescue(f'<tool_call>{{"name": "{name}"}}</tool_call>', (name,)).calls] == [name]


@pytest.mark.parametrize("name", ["a/b", "get", "x:1", "functions.x", "server.tool-1"])
def test_a_name_is_found_at_the_start_of_a_text(name: str) -> None:
    found = rescue(f'{name}{{"a": 1}}', (name, "a", "zz")).calls

    assert [call.call.tool for call in found] == [name]


def test_many_tools_and_unknown_names_are_not_compared_pairwise(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counted(OfferedNames):
        def __init__(self, names: Iterable[str]) -> None:
            super().__init__(names)
            made.append(len(self.sorted))

    monkeypatch.setattr(names_module, "OfferedNames", Counted)
    names = tuple(f"counted_{number}" for number in range(3_000))
    for _ in range(20):
        rescue("".join(f"<x{number}>" for number in range(100)), names)

    assert made == [3_000]


def test_the_cache_keeps_the_most_recently_used_entries_up_to_its_limit() -> None:
    made: list[str] = []

    @cache_results(1_000, len)
    def get(key: str) -> str:
        made.append(key)
        return key

    for number in range(100):
        get(f"{number:0100}")
    made.clear()
    for number in (*range(90, 100), 90, 100, 90, 91):  # 91 was used least recently when 100 was added
        get(f"{number:0100}")

    assert made == [f"{100:0100}", f"{91:0100}"]


def test_an_entry_that_is_larger_than_the_cache_evicts_nothing() -> None:
    made: list[str] = []

    @cache_results(1_000, len)
    def get(key: str) -> str:
        made.append(key)
        return key

    for key in ("a" * 500, "b" * 1_001, "b" * 1_001, "a" * 500):
        assert get(key) == key

    assert made == ["a" * 500, "b" * 1_001, "b" * 1_001]
