"""Events of tasks on a terminal: what is not known is not shown as a number."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.cli.task_rows import describe_task_event
from forge_proxy.client.remote import SentEvent

CALLED: dict[str, Any] = {"model": "tiny", "prompt_tokens": 580, "completion_tokens": 45, "seconds": 0.4}


@pytest.mark.parametrize(
    ("event", "data", "words"),
    [
        ("called", CALLED, "tiny: 580 + 45 tokens in 0.4 s"),
        ("called", {**CALLED, "completion_tokens": None}, "tiny: tokens unknown in 0.4 s"),
        ("baseline", {"findings": 0, "tests": None}, "findings 0"),
        ("baseline", {"findings": 2, "tests": 7}, "findings 2, tests 7"),
    ],
)
def test_an_event_is_one_line(event: str, data: dict[str, Any], words: str) -> None:
    line = describe_task_event(SentEvent(5, event, data))

    assert line is not None
    assert line.split(maxsplit=2)[2] == words
