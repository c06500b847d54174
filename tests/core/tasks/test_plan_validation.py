"""What of a plan is rejected before its first step (D8, D17, D29)."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.tasks.models import Plan
from forge_proxy.core.tasks.plan_validation import find_plan_faults
from forge_proxy.core.tasks.scopes import PROTECTED, WriteScope


def step(name: str, *targets: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "description": "d", "target_files": list(targets), **fields}


def faults(*steps: dict[str, Any], targets: tuple[str, ...] = (), depth: int = 1) -> tuple[str, ...]:
    plan = Plan.model_validate({"explanation": "", "steps": list(steps)})
    scope = WriteScope(("**",), PROTECTED)
    return find_plan_faults(
        plan, task_id="task", targets=targets, existing={"a.py", "old.py"}, scope=scope, max_depth=depth
    )


def test_a_plan_that_builds_on_its_own_files_is_valid() -> None:
    assert (
        faults(step("one", "new.py"), step("two", "a.py", context_files=["new.py", "old.py"]), targets=("a.py",)) == ()
    )


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ([step("one", "a.py"), step("ONE", "b.py")], "steps[1].id: 'ONE' is the id of another one"),
        ([step("one")], "steps[0].target_files: expected at least one file"),
        ([step("one", "../a.py")], "steps[0]: '../a.py': the path leaves the repository"),
        ([step("one", "/a.py")], "steps[0]: '/a.py': the path is absolute"),
        ([step("one", "uv.lock")], "steps[0].target_files: 'uv.lock' is outside the paths"),
        ([step("one", "a.py", context_files=["gone.py"])], "steps[0].context_files: 'gone.py': there is no such file"),
        (
            [step("one", "a.py", context_files=["new.py"]), step("two", "new.py")],
            "steps[0].context_files: 'new.py': no earlier step writes it",
        ),
        ([step("one", "b.py")], "steps: no step has the file 'a.py' of the task as a target"),
        (
            [step("one", sub_tasks=[step("x", "a.py")])],
            "steps[0].sub_tasks: expected at least two sub-tasks, or none",
        ),
        (
            [step("one", sub_tasks=[step("x", "a.py"), step("y", "a.py")])],
            "steps[0].sub_tasks: 'a.py' is a target of several sub-tasks",
        ),
        (
            [step("one", sub_tasks=[step("x", "a.py"), step("x", "b.py")])],
            "steps[0].sub_tasks[1].id: 'x' is the id of another one",
        ),
        (
            [step("one", sub_tasks=[step("x", sub_tasks=[step("p", "b.py"), step("q", "a.py")]), step("y", "d.py")])],
            "steps[0].sub_tasks[0].sub_tasks: sub-tasks may be nested 1 deep here",
        ),
        (
            [step("one", sub_tasks=[step("x", "a.py"), step("y", "A.py")])],
            "steps[0].sub_tasks: 'A.py' is a target of several sub-tasks",
        ),
        (
            [step("one", sub_tasks=[step("x.sub.y", "a.py"), step("y", "b.py")])],
            "steps[0].sub_tasks[0].id: 'x.sub.y' contains '.sub.', which separates the ids of sub-tasks",
        ),
        (
            [step("one", sub_tasks=[step("sub.y", "a.py"), step("y", "b.py")])],
            "steps[0].sub_tasks[0].id: 'sub.y' contains '.sub.', which separates the ids of sub-tasks",
        ),
        (
            [step("one", sub_tasks=[step("lock", "a.py"), step("y", "b.py")])],
            "steps[0].sub_tasks[0].id: git permits no branch name with '.lock' at its end",
        ),
        ([step("one", "src/*.py")], "steps[0].target_files: 'src/*.py': expected a file"),
        (
            [step("one", sub_tasks=[step("x", "a.py"), step("y", "**")])],
            "steps[0].sub_tasks[1].target_files: '**': expected a file",
        ),
        (
            [step("one", "a.py", "b.py", must_not_write=["a.*"])],
            "steps[0].must_not_write: forbids 'a.py', which is a target of this step",
        ),
        (
            [step("one", sub_tasks=[step("x", "a.py"), step("y", "b.py")], must_not_write=["b.py"])],
            "steps[0].must_not_write: forbids 'b.py', which is a target of this step",
        ),
        ([step("one", "OLD.py")], "steps[0].target_files: 'OLD.py' differs only in case from 'old.py'"),
        (
            [step("one", "n\u00e9.py"), step("two", "ne\u0301.py")],
            "steps[1].target_files: 'ne\u0301.py' differs only in case from 'n\u00e9.py'",
        ),
        (
            [step("one", sub_tasks=[step(f"x{number}", f"{number}.py") for number in range(65)])],
            "steps[0].sub_tasks: 65 sub-tasks; 64 are possible",
        ),
        (
            [step(f"s{one}", sub_tasks=[step(f"x{two}", f"{one}-{two}.py") for two in range(64)]) for one in range(8)],
            "steps: 512 sub-tasks; 511 are possible",
        ),
        (
            [step("one", "a.py", context_files=["b.py"]),
             step("two", sub_tasks=[step("x", "b.py", context_files=["c.py"]), step("y", "c.py")])],
            "steps[1].sub_tasks[0].context_files: 'c.py': no earlier step writes it",
        ),
    ],
)  # fmt: skip
def test_d8_a_plan_with_this_fault_is_rejected(steps: list[dict[str, Any]], fault: str) -> None:
    found = faults(*steps, targets=("a.py",))

    assert [one for one in found if one.startswith(fault)]


def test_d17_the_depth_of_sub_tasks_is_a_budget() -> None:
    nested = step("x", sub_tasks=[step("p", "b.py"), step("q", "c.py")])
    plan = step("one", sub_tasks=[nested, step("y", "a.py")])

    assert faults(plan, depth=2) == ()
    assert faults(plan, depth=1)
    assert faults(step("one", sub_tasks=[step("x", "a.py"), step("y", "b.py")]), depth=0)


def test_d17_a_step_may_have_a_smaller_budget_but_no_larger_one() -> None:
    flat = [step("x", "a.py"), step("y", "b.py")]
    nested = [step("x", sub_tasks=flat), step("z", "c.py")]

    assert faults(step("one", sub_tasks=nested, max_fan_out_depth=2), depth=2) == ()
    assert faults(step("one", sub_tasks=nested, max_fan_out_depth=1), depth=2) == (
        "steps[0].sub_tasks[0].sub_tasks: sub-tasks may be nested 1 deep here",
    )
    assert faults(step("one", sub_tasks=flat, max_fan_out_depth=3), depth=2) == (
        "steps[0].max_fan_out_depth: 3; 2 is possible here",
    )


def test_d26_the_compound_id_of_a_sub_task_is_no_longer_than_that_of_a_job() -> None:
    def of(length: int) -> tuple[str, ...]:
        inner = [step("p" * length, "a.py"), step("q", "b.py")]
        return faults(step("one", sub_tasks=[step("x" * 30, sub_tasks=inner), step("y", "c.py")]), depth=2)

    free = 128 - len("task.sub.") - 30 - len(".sub.") - len(".999")
    assert of(min(free, 64)) == ()
    assert find_long(64) == ("steps[0].sub_tasks[0].id: too long for a sub-task of " + "t" * 64,)


def find_long(length: int) -> tuple[str, ...]:
    plan = Plan.model_validate(
        {"explanation": "", "steps": [step("one", sub_tasks=[step("x" * length, "a.py"), step("y", "b.py")])]}
    )
    scope = WriteScope(("**",), PROTECTED)
    return find_plan_faults(plan, task_id="t" * 64, targets=(), existing=set(), scope=scope, max_depth=1)


def test_files_that_several_sub_tasks_change_are_targets_of_the_step() -> None:
    shared = step("one", "names.py", sub_tasks=[step("x", "b.py"), step("y", "c.py")])

    assert faults(shared, targets=("names.py",)) == ()
