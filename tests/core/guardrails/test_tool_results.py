"""What kind a tool's result is, read from its text."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.tool_results import ResultKind, is_usable, read_kind

KINDS = {
    ResultKind.ERROR: (
        "Error: city not found",
        '{"error": "no such city"}',
        "[ToolError] days: expected an integer",
        "Traceback (most recent call last):",
        "HTTP 404",
        "404 Not Found",
        '{"success": false, "message": "x"}',
        '{"status": "error"}',
        "Process exited with code 1",
        "File does not exist",
        "FileNotFoundError: a",
        "Permission denied",
        "Command failed",
        "Cannot find x",
        "exit code: 2",
        "bash: foo: command not found",
    ),
    ResultKind.TRANSIENT: (
        "Error: timeout",
        "Request timed out",
        "429 Too Many Requests",
        "503 Service Unavailable",
        "database is locked",
        "Resource busy, try again",
        "busy",
        '{"error":"rate limit exceeded"}',
        "HTTP 500 internal server error",
        "Service temporarily unavailable",
        "Error 502",
        '{"status": 503, "message": "x"}',
        "The server is overloaded, retry later",
    ),
    ResultKind.UNDER_WAY: (
        '{"status": "pending"}',
        "Job 4 is running",
        "queued",
        "Not ready yet",
        '{"state":"in_progress"}',
    ),
    ResultKind.OK: (
        "",
        "sunny",
        '{"temp": 21}',
        "Room 503 booked",
        "The user is busy on Monday",
        '{"error": null, "data": 3}',
        '{"errors": [], "ok": true}',
        "exit code: 0",
        "500 items in stock",
        "404.5 km",
        "Found no errors",
        "3 passed, 0 failed",
        "def f():\n    raise ValueError('not found')  # timed out\n" + "    pass\n" * 50,
    ),
}


@pytest.mark.parametrize(("kind", "result"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_a_result_is_read_by_its_text(kind: ResultKind, result: str) -> None:
    assert read_kind(result) is kind
    assert is_usable(result) is (kind in (ResultKind.OK, ResultKind.UNDER_WAY))


def test_only_the_beginning_of_a_long_result_is_read() -> None:
    page = "The weather in Oslo. " * 1000

    assert read_kind(page + "Error: timeout") is ResultKind.OK
    assert read_kind("Error: timeout\n" + page) is ResultKind.TRANSIENT
