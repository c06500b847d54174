"""The smallest context window of each client."""

from __future__ import annotations

import re

import pytest

from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.minimum import MINIMUM_WINDOW, describe_small_window, describe_small_windows
from tests.fakes.processes import command


def test_the_minimum_window_of_each_client_holds_its_first_request() -> None:
    assert set(MINIMUM_WINDOW) < set(CLIENTS)
    assert MINIMUM_WINDOW["opencode"] == 15_000
    for client, needed in MINIMUM_WINDOW.items():
        found = re.search(r"first request has about ([\d,]+)\)", describe_small_window(client, 1) or "")
        assert found
        assert int(found[1].replace(",", "")) < needed


@pytest.mark.parametrize(("window", "small"), [(14_999, True), (15_000, False), (None, False)])
def test_a_known_window_below_the_minimum_is_too_small(window: int | None, small: bool) -> None:
    assert (describe_small_window("opencode", window) is not None) is small


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ([], None),
        ([None], None),
        ([2048, 32_768], None),
        ([2048, None, 15_000], "too small to begin with: claude (26,000)"),
    ],
)
def test_the_largest_window_decides(windows: list[int | None], said: str | None) -> None:
    assert describe_small_windows(windows) == said


def test_check_lists_the_clients_that_need_a_larger_window() -> None:
    ended = command("check", "--backend", "embedded", "--port", "0")

    assert ended.code == 0
    assert re.search(r"^window +too small to begin with: opencode \(15,000\), .*continue", ended.out, re.MULTILINE)
