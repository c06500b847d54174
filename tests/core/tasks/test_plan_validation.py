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
