"""Only what the base branch did not have counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.tasks.check_output.baseline import find_missing_tests, find_new
from forge_proxy.core.tasks.findings import Baseline, Finding


def lint(line: int, message: str = "`os` imported but unused", path: str = "a.py") -> Finding:
    return Finding("lint", message, path, line, 1, "F401")


def failed(code: str, message: str = "assert 1 == 2", line: int = 3) -> Finding:
    return Finding("tests", message, "tests/test_a.py", line, code=code)


def test_a_finding_of_the_base_branch_that_has_moved_is_not_new() -> None:
    assert find_new([lint(30)], Baseline((lint(3),))) == []


def test_numbers_in_messages_do_not_make_them_new() -> None:
    before = lint(3, "redefinition of `x` from line 10")

    assert find_new([lint(5, "redefinition of `x` from line 12")], Baseline((before,))) == []


def test_of_equal_findings_those_in_excess_are_new_at_lines_without_one_before() -> None:
    assert find_new([lint(3), lint(9), lint(12)], Baseline((lint(3), lint(12)))) == [lint(9)]


def test_the_same_problem_in_another_file_is_new() -> None:
    assert find_new([lint(3, path="b.py")], Baseline((lint(3),))) == [lint(3, path="b.py")]


def test_a_test_that_failed_before_is_not_new_whatever_it_prints_now() -> None:
    before = failed("tests/test_a.py::test_x", "assert <object at 0x7f00> == 1")
    now = [failed("tests/test_a.py::test_x", "ValueError", line=9), failed("tests/test_a.py::test_y")]

    assert find_new(now, Baseline((before,))) == [failed("tests/test_a.py::test_y")]


def test_a_command_that_failed_on_the_base_branch_without_a_place_is_not_new() -> None:
    before = Finding("build", "the command failed with exit code 2: at 10:15:12", code="exit")
    now = Finding("build", "the command failed with exit code 2: something else", code="exit")

    assert find_new([now], Baseline((before,))) == []
    assert find_new([now], Baseline()) == [now]


@given(st.lists(st.builds(lint, st.integers(1, 9), st.sampled_from("ab"), st.sampled_from(["a.py", "b.py"]))))
def test_nothing_is_new_on_the_base_branch_itself(findings: list[Finding]) -> None:
    assert find_new(findings, Baseline(tuple(findings))) == []
    assert find_new(findings, Baseline()) == findings


def test_fewer_collected_tests_are_a_finding() -> None:
    baseline = Baseline(collected_tests=5)

    assert find_missing_tests("tests", 5, baseline) is None
    assert find_missing_tests("tests", 6, baseline) is None
    assert find_missing_tests("tests", None, Baseline()) is None
    for collected in (4, None):
        found = find_missing_tests("tests", collected, baseline)
        assert found is not None
        assert "there were 5; keep all existing tests" in found.message
