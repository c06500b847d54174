"""Checks a plan before its first step: what it would write, read and start (D8, D17, D29)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from forge_proxy.core.jobs.limits import MAX_CHILDREN, MAX_TREE
from forge_proxy.core.tasks.ids import MAX_LENGTH, find_part_fault, sub_task_id
from forge_proxy.core.tasks.models import Plan, PlanStep, SubTask
from forge_proxy.core.tasks.paths import find_path_fault, fold_case
from forge_proxy.core.tasks.scopes import WriteScope, is_pattern

_REPEATED = 4
"""Characters that are added to the id of a sub-task that is repeated, such as `.2`."""


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
        *_check_ids(plan, task_id),
        *_check_depth(plan, max_depth),
        *_check_size(plan),
        *_check_paths(plan, scope),
        *_check_names(plan, existing),
        *_check_context(plan, existing),
        *_check_coverage(plan, targets),
    )


def collect_target_files(part: PlanStep | SubTask) -> tuple[str, ...]:
    """Return the target files of a step or a sub-task, with those of the sub-tasks below it."""
    below = (path for sub_task in part.sub_tasks for path in collect_target_files(sub_task))
    return tuple(dict.fromkeys((*part.target_files, *below)))


def _parts(plan: Plan) -> Iterator[tuple[str, PlanStep | SubTask]]:
    """Yield each step and each sub-task, with its place in the plan."""
    for number, step in enumerate(plan.steps):
        yield from _parts_of(step, number)


def _parts_of(step: PlanStep, number: int) -> Iterator[tuple[str, PlanStep | SubTask]]:
    """Yield a step and the sub-tasks below it."""

    def below(at: str, part: PlanStep | SubTask) -> Iterator[tuple[str, PlanStep | SubTask]]:
        yield at, part
        for number, sub_task in enumerate(part.sub_tasks):
            yield from below(f"{at}.sub_tasks[{number}]", sub_task)

    yield from below(f"steps[{number}]", step)


def _check_ids(plan: Plan, task_id: str) -> Iterator[str]:
    def duplicates(at: str, parts: Sequence[PlanStep | SubTask]) -> Iterator[str]:
        seen: set[str] = set()
        for number, part in enumerate(parts):
            if part.id.lower() in seen:
                yield f"{at}[{number}].id: {part.id!r} is the id of another one; ids differ in more than their case"
            seen.add(part.id.lower())

    yield from duplicates("steps", plan.steps)
    for at, part in _parts(plan):
        yield from duplicates(f"{at}.sub_tasks", part.sub_tasks)
        if fault := find_part_fault(part.id):
            yield f"{at}.id: {fault}"

    def compound(at: str, parent: str, sub_tasks: Sequence[SubTask]) -> Iterator[str]:
        for number, sub_task in enumerate(sub_tasks):
            place, full = f"{at}.sub_tasks[{number}]", sub_task_id(parent, sub_task.id)
            if len(full) > MAX_LENGTH - _REPEATED:
                yield f"{place}.id: too long for a sub-task of {parent}"
            if full.endswith(".lock"):
                yield f"{place}.id: git permits no branch name with '.lock' at its end"
            yield from compound(place, full, sub_task.sub_tasks)

    for number, step in enumerate(plan.steps):
        yield from compound(f"steps[{number}]", task_id, step.sub_tasks)


def _check_depth(plan: Plan, max_depth: int) -> Iterator[str]:
    for number, step in enumerate(plan.steps):
        own = step.max_fan_out_depth if step.max_fan_out_depth is not None else plan.max_fan_out_depth
        if own is not None and own > max_depth:
            yield f"steps[{number}].max_fan_out_depth: {own}; {max_depth} is possible here"
        limit = max_depth if own is None else min(own, max_depth)
        for at, part in _parts_of(step, number):
            if part.sub_tasks and at.count("sub_tasks") >= limit:
                yield f"{at}.sub_tasks: sub-tasks may be nested {limit} deep here"
            if len(part.sub_tasks) == 1:
                yield f"{at}.sub_tasks: expected at least two sub-tasks, or none"


def _check_size(plan: Plan) -> Iterator[str]:
    """Check the number of sub-tasks: each is a job."""
    total = -len(plan.steps)
    for at, part in _parts(plan):
        total += 1
        if len(part.sub_tasks) > MAX_CHILDREN:
            yield f"{at}.sub_tasks: {len(part.sub_tasks)} sub-tasks; {MAX_CHILDREN} are possible"
    if total >= MAX_TREE:
        yield f"steps: {total} sub-tasks; {MAX_TREE - 1} are possible"


def _check_paths(plan: Plan, scope: WriteScope) -> Iterator[str]:
    for at, part in _parts(plan):
        if not collect_target_files(part):
            yield f"{at}.target_files: expected at least one file"
        for path in (*part.target_files, *part.context_files):
            if fault := find_path_fault(path):
                yield f"{at}: {path!r}: {fault}"
        forbidden = part.must_not_write if isinstance(part, PlanStep) else ()
        for path in collect_target_files(part) if forbidden else ():
            if WriteScope((path,), forbidden).find_outside([path]):
                yield f"{at}.must_not_write: forbids {path!r}, which is a target of this step"
        for path in part.target_files:
            if find_path_fault(path):
                continue
            if is_pattern(path):
                yield f"{at}.target_files: {path!r}: expected a file; patterns are possible in may_write"
            elif not scope.permits(path):
                yield f"{at}.target_files: {path!r} is outside the paths that this task may write"
        for path in _find_shared(part.sub_tasks):
            yield f"{at}.sub_tasks: {path!r} is a target of several sub-tasks; they run at the same time"


def _check_names(plan: Plan, existing: Collection[str]) -> Iterator[str]:
    """Check that no target differs only in case from a file that exists or that an earlier step writes."""
    known = {fold_case(path): path for path in existing}
    for at, part in _parts(plan):
        for path in part.target_files:
            other = known.setdefault(fold_case(path), path)
            if other != path:
                yield f"{at}.target_files: {path!r} differs only in case from {other!r}"


def _find_shared(sub_tasks: Sequence[SubTask]) -> tuple[str, ...]:
    """Return the paths that more than one of the sub-tasks writes. Paths that only differ in case are the same."""
    seen: set[str] = set()
    shared: dict[str, None] = {}
    for sub_task in sub_tasks:
        own = {fold_case(path): path for path in collect_target_files(sub_task)}
        shared |= dict.fromkeys(path for folded, path in own.items() if folded in seen)
        seen |= own.keys()
    return tuple(shared)


def _check_context(plan: Plan, existing: Collection[str]) -> Iterator[str]:
    """Check that context files exist or are written by an earlier step."""
    known, later = set(existing), {path for step in plan.steps for path in collect_target_files(step)}
    for number, step in enumerate(plan.steps):
        for at, part in _parts_of(step, number):
            for path in part.context_files:
                if path in known or find_path_fault(path):
                    continue
                why = "no earlier step writes it" if path in later else "there is no such file"
                yield f"{at}.context_files: {path!r}: {why}"
        known |= {*collect_target_files(step)}


def _check_coverage(plan: Plan, targets: Sequence[str]) -> Iterator[str]:
    covered = {path for step in plan.steps for path in collect_target_files(step)}
    for path in targets:
        if path not in covered:
            yield f"steps: no step has the file {path!r} of the task as a target"
