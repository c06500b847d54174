"""Checks a plan before its first step: what it would write, read and start (D8, D17, D29)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from forge_proxy.core.tasks.ids import MAX_LENGTH, sub_task_id
from forge_proxy.core.tasks.models import Plan, PlanStep, SubTask
from forge_proxy.core.tasks.paths import find_path_fault
from forge_proxy.core.tasks.scopes import WriteScope


def find_plan_faults(
    plan: Plan,
    *,
    task_id: str,
    targets: Sequence[str],
    existing: Collection[str],
    scope: WriteScope,
    max_depth: int,
) -> tuple[str, ...]:
    """Return what is wrong with a plan, each with the place in it. `existing` are the files of the repository."""
    return (
        *_check_ids(plan),
        *_check_depth(plan, task_id, max_depth),
        *_check_paths(plan, scope),
        *_check_context(plan, existing),
        *_check_coverage(plan, targets),
    )


def written_by(part: PlanStep | SubTask) -> tuple[str, ...]:
    """Return the target files of a step or a sub-task, with those of the sub-tasks below it."""
    below = (path for sub_task in part.sub_tasks for path in written_by(sub_task))
    return tuple(dict.fromkeys((*part.target_files, *below)))


def _parts(plan: Plan) -> Iterator[tuple[str, PlanStep | SubTask]]:
    """Yield each step and each sub-task, with its place in the plan."""

    def below(at: str, part: PlanStep | SubTask) -> Iterator[tuple[str, PlanStep | SubTask]]:
        yield at, part
        for number, sub_task in enumerate(part.sub_tasks):
            yield from below(f"{at}.sub_tasks[{number}]", sub_task)

    for number, step in enumerate(plan.steps):
        yield from below(f"steps[{number}]", step)


def _check_ids(plan: Plan) -> Iterator[str]:
    def duplicates(at: str, parts: Sequence[PlanStep | SubTask]) -> Iterator[str]:
        seen: set[str] = set()
        for number, part in enumerate(parts):
            if part.id.lower() in seen:
                yield f"{at}[{number}].id: {part.id!r} is the id of another one; ids differ in more than their case"
            seen.add(part.id.lower())

    yield from duplicates("steps", plan.steps)
    for at, part in _parts(plan):
        yield from duplicates(f"{at}.sub_tasks", part.sub_tasks)


def _check_depth(plan: Plan, task_id: str, max_depth: int) -> Iterator[str]:
    for at, part in _parts(plan):
        depth = at.count("sub_tasks")
        if part.sub_tasks and depth >= max_depth:
            yield f"{at}.sub_tasks: sub-tasks may be nested {max_depth} deep here"
        if len(part.sub_tasks) == 1:
            yield f"{at}.sub_tasks: expected at least two sub-tasks, or none"
        if depth and len(sub_task_id(task_id, part.id)) > MAX_LENGTH - 40 * (depth - 1):
            yield f"{at}.id: too long for a sub-task of {task_id}"


def _check_paths(plan: Plan, scope: WriteScope) -> Iterator[str]:
    for at, part in _parts(plan):
        if not written_by(part):
            yield f"{at}.target_files: expected at least one file"
        for path in (*part.target_files, *part.context_files):
            if fault := find_path_fault(path):
                yield f"{at}: {path!r}: {fault}"
        for path in part.target_files:
            if not scope.permits(path) and not find_path_fault(path):
                yield f"{at}.target_files: {path!r} is outside the paths that this task may write"
        for path in _find_shared(part.sub_tasks):
            yield f"{at}.sub_tasks: {path!r} is a target of several sub-tasks; they run at the same time"


def _find_shared(sub_tasks: Sequence[SubTask]) -> tuple[str, ...]:
    """Return the paths that more than one of the sub-tasks writes."""
    seen: set[str] = set()
    shared: dict[str, None] = {}
    for sub_task in sub_tasks:
        for path in written_by(sub_task):
            if path in seen:
                shared[path] = None
            seen.add(path)
    return tuple(shared)


def _check_context(plan: Plan, existing: Collection[str]) -> Iterator[str]:
    """Check that context files exist or are written by an earlier step."""
    known, later = set(existing), {path for step in plan.steps for path in written_by(step)}
    for number, step in enumerate(plan.steps):
        for at, part in _parts(Plan(explanation="", steps=(step,))):
            for path in part.context_files:
                if path in known or find_path_fault(path):
                    continue
                place = at.replace("steps[0]", f"steps[{number}]", 1)
                why = "no earlier step writes it" if path in later else "there is no such file"
                yield f"{place}.context_files: {path!r}: {why}"
        known |= {*written_by(step)}


def _check_coverage(plan: Plan, targets: Sequence[str]) -> Iterator[str]:
    covered = {path for step in plan.steps for path in written_by(step)}
    for path in targets:
        if path not in covered:
            yield f"steps: no step has the file {path!r} of the task as a target"
