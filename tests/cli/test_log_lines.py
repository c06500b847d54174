"""Events as lines for people."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.cli.log_lines import describe_value, render_event

RETRIED: dict[str, Any] = {
    "timestamp": "2026-01-21T12:53:20.500002Z",
    "level": "info",
    "event": "retried",
    "request_id": "req-1",
    "attempt": 1,
    "fault": "unknown_tool",
    "reason": "no such tool",
    "model": None,
}


def test_a_line_has_the_time_the_name_the_fields_and_the_request() -> None:
    time, _, rest = render_event(RETRIED).plain.partition("  ")

    assert time.endswith(":53:20")
    assert rest == 'retried         attempt=1  fault=unknown_tool  reason="no such tool"  req-1'


def test_a_warning_is_colored() -> None:
    plain, warning = (render_event({**RETRIED, "level": level}) for level in ("info", "warning"))

    assert "yellow" not in str(plain.spans)
    assert "bold yellow" in str(warning.spans)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("get_weather", "get_weather"),
        ("two words", '"two words"'),
        ("\x1b[2Jgone", '"\\u001b[2Jgone"'),
        ("a\nb", '"a\\nb"'),
        ("wéather", "wéather"),
        (["unknown_tool", "x y"], 'unknown_tool,"x y"'),
        (1.5, "1.5"),
        (True, "true"),
        ({"a": 1}, '"{\\"a\\": 1}"'),
    ],
)
def test_no_value_can_control_the_terminal(value: object, text: str) -> None:
    assert describe_value(value) == text
