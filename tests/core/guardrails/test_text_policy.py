"""Whether to retry plain text is learned from how often a retry returned a call."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.text_policy import TextResponseRecord


def after(nudges: int, calls: int) -> TextResponseRecord:
    figures = TextResponseRecord()
    for number in range(nudges):
        figures = figures.with_nudge(brought_call=number < calls)
    return figures


@pytest.mark.parametrize(
    ("nudges", "calls", "goes_on"),
    [
        (0, 0, True),
        (7, 0, True),
        (8, 0, False),
        (8, 1, True),
        (10, 1, True),
        (11, 1, False),
        (20, 2, True),
        (21, 2, False),
    ],
)
def test_nudging_continues_while_one_in_ten_returns_a_call(nudges: int, calls: int, goes_on: bool) -> None:
    assert after(nudges, calls).should_nudge() is goes_on


def test_once_text_is_accepted_one_in_twenty_is_still_nudged() -> None:
    figures = after(8, 0)
    nudged: list[int] = []

    for number in range(100):
        if figures.should_nudge():
            nudged.append(number)
            figures = figures.with_nudge(brought_call=False)
        else:
            figures = figures.with_text()

    assert nudged == [11, 31, 51, 71, 91]


def test_a_model_that_starts_to_call_is_nudged_again() -> None:
    figures = after(8, 0)

    figures = figures.with_nudge(brought_call=True)

    assert (figures.texts, figures.nudges, figures.calls) == (9, 9, 1)
    assert figures.should_nudge()
