"""What sub-tasks may write, and what becomes of it: for random outputs, nothing is lost or invented (D5, D8, D18)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.models import PlanStep, SubTask
from forge_proxy.core.tasks.scopes import WriteScope
from forge_proxy.core.tasks.sub_tasks import (
    SubTaskOutput,
    find_concerned,
    find_shared_paths,
    gather_outputs,
    read_gathered,
    read_output_document,
    render_digests,
    to_step,
    write_gathered,
    write_output_document,
)
from forge_proxy.core.tasks.task_scope import scope_of_step

PATHS = st.sampled_from([f"{name}.py" for name in "abcdef"])
FILES = st.dictionaries(PATHS, st.binary(max_size=3), max_size=4)
OUTPUTS = st.dictionaries(st.sampled_from("wxyz"), st.builds(SubTaskOutput, FILES, st.text(max_size=5)), min_size=2)


def part(name: str, *targets: str, below: tuple[SubTask, ...] = ()) -> SubTask:
    return SubTask(id=name, description=f"Do {name}.", target_files=targets, sub_tasks=below)


STEP = PlanStep(
    id="s",
    description="d",
    target_files=("a.py", "names.py"),
    context_files=("all.py",),
    may_write=("docs/**",),
    must_not_write=("docs/old.md",),
    sub_tasks=(part("x", "a.py"), part("y", "docs/y.md")),
)


def permits(step: PlanStep, path: str) -> bool:
    return scope_of_step(WriteScope(("**",), (".forge/**",)), step).permits(path)


def test_d8_a_sub_task_writes_its_targets_and_what_all_share() -> None:
    first, second = (to_step(STEP, one) for one in STEP.sub_tasks)

    assert find_shared_paths(STEP) == ("names.py",)
    assert [permits(first, path) for path in ("a.py", "names.py", "docs/new.md")] == [True, True, True]
    assert [permits(first, path) for path in ("docs/y.md", "docs/old.md", "b.py", ".forge/x")] == [False] * 4
    assert [permits(second, path) for path in ("docs/y.md", "names.py", "a.py")] == [True, True, False]
    assert first.context_files == ("all.py",)


def test_d17_a_nested_sub_task_writes_what_those_above_it_share_and_nothing_of_their_siblings() -> None:
    inner = part("x", "x.py", below=(part("p", "p.py"), part("q", "q.py")))
    outer = PlanStep(id="s", description="d", target_files=("names.py",), sub_tasks=(inner, part("y", "y.py")))

    p = to_step(to_step(outer, inner), inner.sub_tasks[0])

    assert [permits(p, path) for path in ("p.py", "x.py", "names.py")] == [True, True, True]
    assert [permits(p, path) for path in ("q.py", "y.py")] == [False, False]


def test_s_fanout_identical_content_is_no_conflict_and_different_content_is_one() -> None:
    gathered = gather_outputs({
        "x": SubTaskOutput({"a.py": b"a", "same.py": b"1", "names.py": b"x"}, "did x"),
        "y": SubTaskOutput({"same.py": b"1", "names.py": b"y"}, "did\ny"),
    })  # fmt: skip

    assert gathered.files == {"a.py": b"a", "same.py": b"1"}
    assert gathered.conflicts == {"names.py": {"x": b"x", "y": b"y"}}
    assert gathered.writers["same.py"] == ("x", "y")
    assert render_digests(gathered.digests) == "- x: did x\n- y: did y"


@given(OUTPUTS)
def test_s_fanout_nothing_is_lost_or_invented(outputs: dict[str, SubTaskOutput]) -> None:
    gathered = gather_outputs(outputs)

    written = {(path, data) for output in outputs.values() for path, data in output.files.items()}
    assert written == {*gathered.files.items()} | {
        (path, data) for path, versions in gathered.conflicts.items() for data in versions.values()
    }
    assert not gathered.files.keys() & gathered.conflicts.keys()
    assert all(len({*versions.values()}) > 1 for versions in gathered.conflicts.values())
    for path, versions in gathered.conflicts.items():
        assert versions == {name: one.files[path] for name, one in outputs.items() if path in one.files}


@given(OUTPUTS)
def test_d18_outputs_are_the_same_after_they_were_stored(outputs: dict[str, SubTaskOutput]) -> None:
    gathered = gather_outputs(outputs)

    assert read_gathered(write_gathered(gathered)) == gathered
    assert all(read_output_document(write_output_document(one)) == one for one in outputs.values())


@given(OUTPUTS)
def test_s_fanout_the_order_in_which_sub_tasks_end_changes_nothing(outputs: dict[str, SubTaskOutput]) -> None:
    gathered, reverse = gather_outputs(outputs), gather_outputs(dict(reversed(outputs.items())))

    assert (gathered.files, gathered.conflicts) == (reverse.files, reverse.conflicts)


@given(OUTPUTS, st.lists(st.one_of(st.none(), PATHS), min_size=1, max_size=3))
def test_s_fanout_a_finding_repeats_the_sub_tasks_that_may_be_its_cause(
    outputs: dict[str, SubTaskOutput], places: list[str | None]
) -> None:
    gathered = gather_outputs(outputs)

    concerned = find_concerned(gathered, [Finding("lint", "f", path) for path in places])

    if any(path not in gathered.writers for path in places):
        assert concerned == outputs.keys()
        return
    own = {path for path in places if path is not None and path not in gathered.conflicts}
    assert concerned == {name for name, one in outputs.items() if own & one.files.keys()}
