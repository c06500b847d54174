"""The write scope of a task and of its steps, from their definitions and the settings (D8)."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.tasks.models import PlanStep, TaskDefinition
from forge_proxy.core.tasks.plan_validation import collect_target_files
from forge_proxy.core.tasks.scopes import TEST_FILES, WriteScope

_ALL = ("**",)


def scope_of_task(task: TaskDefinition, protected: Sequence[str], *, is_planned: bool) -> WriteScope:
    """Return the scope of a whole task: what it names or, if it names nothing, all that is not protected.

    A planned task without `may_write` may write further files, because its plan names them.
    """
    is_open = is_planned and not task.may_write
    named = () if is_open else (*task.target_files, *task.may_write)
    tests = TEST_FILES if task.validation.tests == "protected" else ()
    return WriteScope(named or _ALL, (*protected, *tests, *task.must_not_write))


def scope_of_step(whole: WriteScope, step: PlanStep) -> WriteScope:
    """Return the scope of a step: its targets, and what it declares beyond them, within that of the task."""
    named = tuple(dict.fromkeys((*collect_target_files(step), *step.may_write)))
    return WriteScope(named, (*whole.must_not, *step.must_not_write), within=whole.may)
