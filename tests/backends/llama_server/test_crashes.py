"""When a crashed server is restarted."""

from __future__ import annotations

import pytest

from forge_proxy.backends.llama_server.crashes import CrashCounter

NEVER, BRIEF, LONG, ANSWERED = (False, 0), (False, 5), (False, 3600), (True, 5)


@pytest.mark.parametrize(
    ("crashes", "is_loop", "pause"),
    [
        ([NEVER], False, 0.5),
        ([NEVER, BRIEF], False, 1),
        ([BRIEF, NEVER, NEVER], True, 2),
        ([NEVER, NEVER, LONG], False, 0.5),
        ([NEVER, NEVER, ANSWERED], False, 0.5),
        ([ANSWERED] * 20, False, 0.5),
        ([ANSWERED, BRIEF, NEVER], True, 2),
    ],
)
def test_three_in_a_row_without_an_answer_are_a_loop(
    crashes: list[tuple[bool, float]], is_loop: bool, pause: float
) -> None:
    so_far = CrashCounter()

    for answered, up in crashes:
        so_far = so_far.add(answered=answered, up_seconds=up)

    assert (so_far.is_loop, so_far.pause) == (is_loop, pause)
