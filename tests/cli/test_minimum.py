"""How much context clients need to begin."""

from __future__ import annotations

import re

import pytest

from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.minimum import MINIMUM_WINDOW, describe_small_window, describe_small_windows
from tests.fakes.processes import command


def test_every_client_with_a_prompt_of_its_own_has_a_minimum_of_at_least_its_first_request() -> None:
    assert set(MINIMUM_WINDOW) == set(CLIENTS) - {"openai", "env"}
    assert MINIMUM_WINDOW["opencode"] == 15_000
    for client, needed in MINIMUM_WINDOW.items():
        found = re.search(r"first request has about ([\d,]+)\)", describe_small_window(client, 1) or "")
        assert found
        assert int(found[1].replace(",", "")) < needed


@pytest.mark.parametrize(("window", "small"), [(14_999, True), (15_000, False), (None, False)])
def test_a_window_is_too_small_below_the_minimum_and_if_it_is_known(window: int | None, small: bool) -> None:
    assert (describe_small_window("opencode", window) is not None) is small


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ([], None),
        ([None], None),
        ([2048, 32_768], None),
        ([2048, None, 15_000], "too small to begin with: codex (20,000), claude (26,000)"),
    ],
)
def test_the_largest_window_decides(windows: list[int | None], said: str | None) -> None:
    assert describe_small_windows(windows) == said


def test_check_says_which_clients_the_window_is_too_small_for() -> None:
    ended = command("check", "--backend", "embedded", "--port", "0")

    assert ended.code == 0
    assert re.search(r"^window +too small to begin with: opencode \(15,000\), .*continue", ended.out, re.MULTILINE)
