"""Write scopes (D8) and ids (D26)."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.tasks.ids import branch_of, check_id, find_id_fault, find_part_fault, sub_task_id
from forge_proxy.core.tasks.scopes import PROTECTED, TEST_FILES, WriteScope

_PARTS = st.lists(
    st.lists(st.sampled_from(["a", "sub"]), min_size=1, max_size=4)
    .map(".".join)
    .filter(lambda text: find_part_fault(text) is None),
    min_size=1,
    max_size=3,
)
"""The ids of a task and of sub-tasks below it, each that of the one before."""


@pytest.mark.parametrize(
    ("patterns", "path", "permits"),
    [
        (("a.py",), "a.py", True),
        (("a.py",), "b/a.py", False),
        (("src/*.py",), "src/a.py", True),
        (("src/*.py",), "src/b/a.py", False),
        (("src/**/*.py",), "src/a.py", True),
        (("src/**/*.py",), "src/b/c/a.py", True),
        (("src/",), "src/b/c", True),
        (("src/",), "srcs/b", False),
        (("**",), "a/b", True),
        (("**",), "../a", False),
        (("a.?",), "a.c", True),
        (("a[1].py",), "a[1].py", True),
    ],
)
def test_d8_a_scope_permits_what_its_patterns_match(patterns: tuple[str, ...], path: str, permits: bool) -> None:
    assert WriteScope(patterns).permits(path) == permits


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".forge/checks.yaml",
        "uv.lock",
        "web/package-lock.json",
        "a/.gitattributes",
        ".ci/run",
        ".GitHub/workflows/ci.yml",
        "a/.GITATTRIBUTES",
        ".forge",
        "bun.lockb",
        "a/Package.resolved",
    ],
)
def test_d8_protected_paths_are_outside_every_scope(path: str) -> None:
    assert not WriteScope(("**",), PROTECTED).permits(path)


@pytest.mark.parametrize("path", ["tests/a.py", "src/pkg/test_a.py", "web/a.test.ts", "pkg/a_test.go", "conftest.py"])
def test_d8_test_files_are_recognised_by_name(path: str) -> None:
    assert not WriteScope(("**",), TEST_FILES).permits(path)


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        (("a.py",), ("a.py",), True),
        (("a.py",), ("b.py",), False),
        (("src/**",), ("src/a.py",), True),
        (("src/**",), ("tests/**",), False),
        (("src/a*",), ("src/**/b.py",), True),
        (("**",), ("x",), True),
        ((), ("**",), False),
    ],
)
def test_d8_scopes_overlap_if_both_may_permit_a_path(one: tuple[str, ...], two: tuple[str, ...], overlap: bool) -> None:
    assert WriteScope(one).overlaps(WriteScope(two)) == overlap
    assert WriteScope(two).overlaps(WriteScope(one)) == overlap


def test_a_scope_of_files_only_has_a_list_of_paths() -> None:
    assert WriteScope(("b", "a", "b", "c"), ("c",)).exact_paths == ("b", "a")
    assert WriteScope(("b", "src/**")).exact_paths is None
    assert WriteScope(("pages/[id].tsx",)).exact_paths == ("pages/[id].tsx",)


@pytest.mark.parametrize("text", ["a", "fix-42", "A.b_c-d", "x" * 64])
def test_d26_an_id_is_valid(text: str) -> None:
    assert check_id(text, "task_id") == text


@pytest.mark.parametrize("text", ["", "-a", ".a", "a/b", "a b", "x" * 65, "a..b", "a.", "a.lock", "ä", "a\n"])
def test_d26_what_git_could_not_have_as_a_branch_is_no_id(text: str) -> None:
    assert find_id_fault(text)
    with pytest.raises(InvalidRequest, match="task_id"):
        check_id(text, "task_id")


@pytest.mark.parametrize(("text", "is_part"), [("a", True), ("sub", True), ("substep", True), ("a.sub", False),
                                               ("sub.a", False), ("a.sub.b", False)])  # fmt: skip
def test_d26_ids_that_could_be_mistaken_for_those_of_sub_tasks_are_no_parts(text: str, is_part: bool) -> None:
    assert (find_part_fault(text) is None) is is_part


@given(_PARTS, _PARTS)
def test_d26_no_two_sub_tasks_have_the_same_compound_id(one: list[str], other: list[str]) -> None:
    assert (reduce(sub_task_id, one) == reduce(sub_task_id, other)) is (one == other)


def test_d26_sub_tasks_have_compound_ids() -> None:
    assert sub_task_id("my-task", "analyze-schema") == "my-task.sub.analyze-schema"
    assert branch_of(sub_task_id("my-task", "analyze-schema")) == "forge/my-task.sub.analyze-schema"
