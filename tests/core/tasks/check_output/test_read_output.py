"""Findings in the output of tools, as the tools print it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from forge_proxy.core.tasks.check_output.read_output import CheckOutput, read_check_output
from forge_proxy.core.tasks.findings import Finding
from tests.folding import folded

ROOTS = ("/repo", "/state/worktrees/t1")


def read(out: str, *, code: int = 1, err: str = "") -> Sequence[Finding]:
    return read_check_output("check", CheckOutput(code, out, err), ROOTS).findings


def only(out: str) -> tuple[str | None, int | None, int | None, str | None, str]:
    (found,) = read(out)
    return found.path, found.line, found.column, found.code, found.message


def test_json_of_ruff() -> None:
    entry = {
        "cell": None, "code": "F821", "end_location": {"column": 11, "row": 4}, "filename": "/repo/src/a.py",
        "location": {"column": 10, "row": 4}, "message": "Undefined name `y`", "noqa_row": 4, "url": "https://x",
    }  # fmt: skip
    outside = {**entry, "filename": "/elsewhere/b.py", "code": None, "location": None}

    assert read(json.dumps([entry, outside])) == (
        Finding("check", "Undefined name `y`", "src/a.py", 4, 10, "F821"),
        Finding("check", "Undefined name `y`", None),
    )


@folded
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("src/a.py:3:5: F401 `os` imported but unused", ("src/a.py", 3, 5, "F401", "`os` imported but unused")),
        ("/repo/a.py:3: error: Bad thing  [arg-type]", ("a.py", 3, None, "arg-type", "Bad thing")),
        ("/state/worktrees/t1/a.py:3:5 - error: Bad (reportX)", ("a.py", 3, 5, "reportX", "Bad")),
        ("  /repo/a.py:1:2 - error: Indented (reportY)", ("a.py", 1, 2, "reportY", "Indented")),
        ("src/a.ts(12,3): error TS2322: Type 'x'.", ("src/a.ts", 12, 3, "TS2322", "Type 'x'.")),
        ("./cmd/main.go:10:2: undefined: x", ("cmd/main.go", 10, 2, None, "undefined: x")),
        ("a.c:1:2: warning: unused [-Wunused]", ("a.c", 1, 2, None, "unused [-Wunused]")),
        ("\x1b[1ma.py\x1b[0m:3:5: E501 Line too long", ("a.py", 3, 5, "E501", "Line too long")),
    ],
)
def test_messages_with_a_place(line: str, expected: tuple[object, ...]) -> None:
    assert only(f"{line}\n") == expected


@folded
@pytest.mark.parametrize(
    "line", ["a.py:3: note: See this", "/elsewhere/a.py:3:1: E1 bad", "../a.py:1:1: E1 bad", "12:30:15: started", "::"]
)
def test_what_is_no_finding_in_the_repository_is_reported_as_the_output_of_a_failed_command(line: str) -> None:
    assert only(f"{line}\n") == (None, None, None, "exit", f"the command failed with exit code 1: {line}")


def test_a_command_that_succeeds_has_no_findings_and_one_that_is_stopped_has_one() -> None:
    warning = "a.py:1:1: W1 something"

    assert read(warning, code=0) == ()
    (found,) = read_check_output("check", CheckOutput(-9, warning, stopped="it ran longer than 300 s"), ROOTS).findings
    assert str(found) == "stopped the command was stopped: it ran longer than 300 s"


def test_a_command_that_fails_silently_has_a_finding() -> None:
    assert only("") == (None, None, None, "exit", "the command failed with exit code 1: it printed nothing")


@folded
@pytest.mark.parametrize(
    "text",
    [
        "Would reformat: src/a.py\n1 file would be reformatted\n",
        "unformatted: File would be reformatted\n --> src/a.py:2:1\n  |\n1 | import os\n",
    ],
)
def test_files_that_ruff_would_format(text: str) -> None:
    assert only(text) == ("src/a.py", None, None, "format", "the file is not formatted")


@folded
@pytest.mark.parametrize(
    "text",
    [
        "error: Failed to parse b.py:1:7: Expected a parameter\n",
        "invalid-syntax: Expected a parameter\n --> b.py:1:7\n  |\n",
    ],
)
def test_files_that_ruff_cannot_format(text: str) -> None:
    assert only(text) == ("b.py", 1, 7, "invalid-syntax", "Expected a parameter")


_PYTEST = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
rootdir: /repo
collected 5 items

tests/test_half.py .FF.E                                                 [100%]
==================================== ERRORS ====================================
_________________________ ERROR at setup of test_error _________________________
file /repo/tests/test_half.py, line 10
  def test_error(missing_fixture): pass
E       fixture 'missing_fixture' not found
>       use 'pytest --fixtures [testpath]' for help on them.

/repo/tests/test_half.py:10
=================================== FAILURES ===================================
__________________________________ test_half ___________________________________

>   def test_half(): assert half(4) == 2
E   assert 3 == 2
E    +  where 3 = half(4)

tests/test_half.py:5: AssertionError
___________________________ TestNegative.test_it[-1] ___________________________

self = <test_half.TestNegative object at 0x7fbb68900190>, n = -1

>       half(n)

tests/test_half.py:9:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

>           raise ValueError(f"negative: {n}")
E           ValueError: negative: -1

pkg/__init__.py:3: ValueError
=========================== short test summary info ============================
FAILED tests/test_half.py::test_half - assert 3 == 2
FAILED tests/test_half.py::TestNegative::test_it[-1] - ValueError: negative: -1
ERROR tests/test_half.py::test_error
========================= 2 failed, 2 passed, 1 error in 0.13s =========================
"""


def test_failed_tests_of_pytest_with_reason_and_place() -> None:
    report = read_check_output("tests", CheckOutput(1, _PYTEST), ROOTS)

    assert report.collected_tests == 5
    assert [(one.code, one.path, one.line, one.message) for one in report.findings] == [
        ("tests/test_half.py::test_half", "tests/test_half.py", 5, "assert 3 == 2\n+  where 3 = half(4)"),
        ("tests/test_half.py::TestNegative::test_it[-1]", "pkg/__init__.py", 3, "ValueError: negative: -1"),
        ("tests/test_half.py::test_error", "tests/test_half.py", 10, "fixture 'missing_fixture' not found"),
    ]


def test_failures_without_tracebacks() -> None:
    (found,) = read("short test summary info\nFAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed in 0.1s\n")

    assert (found.path, found.line, found.code) == ("tests/test_a.py", None, "tests/test_a.py::test_x")
    assert found.message == "assert 1 == 2"


def test_an_error_during_collection_is_a_finding() -> None:
    text = (
        "collected 5 items / 1 error\n\n==== ERRORS ====\n"
        "____________________ ERROR collecting tests/test_import.py _____________________\n"
        "ImportError while importing test module '/repo/tests/test_import.py'.\n"
        "/usr/lib/python3.11/importlib/__init__.py:126: in import_module\n"
        "tests/test_import.py:1: in <module>\n    import nothing_here\n"
        "E   ModuleNotFoundError: No module named 'nothing_here'\n"
        "=========================== short test summary info ============================\n"
        "ERROR tests/test_import.py\n"
        "=============================== 1 error in 0.21s ===============================\n"
    )

    (found,) = read(text)
    assert (found.code, found.path, found.line) == ("tests/test_import.py", "tests/test_import.py", 1)
    assert found.message == "ModuleNotFoundError: No module named 'nothing_here'"


@folded
@pytest.mark.parametrize(
    ("text", "tests"),
    [
        ("collected 12 items\n", 12),
        ("collected 1 item\n", 1),
        ("collected 12 items / 8 deselected / 4 selected\n", 4),
        ("2 workers [12 items]\n", 12),
        ("5 passed in 0.10s\n", 5),
        ("1 failed, 3 passed, 2 skipped, 1 xfailed, 4 warnings in 65.1s (0:01:05)\n", 7),
        ("=== 5 passed in 0.10s ===\n", 5),
        ("no tests ran in 0.01s\nshort test summary info\n", 0),
        (".....F [ 50%]\n...E.s [100%]\n", 12),
        ("Found 2 errors.\n", None),
    ],
)
def test_the_number_of_collected_tests(text: str, tests: int | None) -> None:
    assert read_check_output("tests", CheckOutput(0, text), ROOTS).collected_tests == tests


def test_an_endless_list_of_findings_is_bounded() -> None:
    text = "".join(f"a.py:{line}:1: E1 bad\n" for line in range(1, 5000))

    assert len(read(text)) == 500
