"""The result of a task, and its outcome as JSON."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter

from forge_proxy.core.tasks.decisions import AwaitReview, End
from forge_proxy.core.tasks.ids import branch_of
from forge_proxy.core.tasks.models import TaskResult
from forge_proxy.core.tasks.records import TaskCall, TaskState
from forge_proxy.tasks.descendants import read_descendants
from forge_proxy.tasks.phase_run import PhaseRun

_MAX_SUBJECT = 72
"""Characters of the first line of a commit message."""


async def build_result(run: PhaseRun, decision: AwaitReview | End, files: tuple[str, ...] | None = None) -> TaskResult:
    """Return the result of a task as it is now. The calls are those of its sub-tasks, too."""
    state, before, calls = run.state, run.state.result, await _read_calls(run)
    status = "awaiting_merge" if isinstance(decision, AwaitReview) else decision.status
    return TaskResult(
        status,
        _digest(run),
        branch_of(state.task_id) if state.parent is None else None,
        state.repository.base_commit,
        state.head,
        files if files is not None else (before.output_files if before is not None else ()),
        state.results,
        state.progress.attempts,
        len(calls),
        sum(call.prompt_tokens or 0 for call in calls),
        sum(call.completion_tokens or 0 for call in calls),
    )


def write_outcome(state: TaskState) -> str:
    """Serialize the result of a task that has ended."""
    if state.result is None:
        raise AssertionError("a task that has ended without failing has a result")
    return _adapter().dump_json(state.result).decode()


def first_line(text: str) -> str:
    """Return the first line of a text, short enough for a commit message."""
    line = text.strip().splitlines()[0].strip()
    return line if len(line) <= _MAX_SUBJECT else line[: _MAX_SUBJECT - 1] + "…"


async def _read_calls(run: PhaseRun) -> tuple[TaskCall, ...]:
    """Return the calls of a task and of its sub-tasks, also those whose output was not used."""
    state = run.state
    if state.progress.plan is None or not any(step.sub_tasks for step in state.progress.plan.steps):
        return state.calls
    below = read_descendants(await run.deps.open_jobs(), run.writer.job)
    return (*state.calls, *[call async for _, sub_task in below for call in sub_task.calls])


def _digest(run: PhaseRun) -> str:
    """Return a short text about what was done, for a parent or a list (D18)."""
    steps = run.state.progress.plan.steps if run.state.progress.plan is not None else ()
    done = [f"{step.id}: {step.description}" for step in steps if step.id in run.state.step_commits]
    return "\n".join(done) or first_line(run.state.input.task.description)


@cache
def _adapter() -> TypeAdapter[TaskResult]:
    return TypeAdapter(TaskResult)
