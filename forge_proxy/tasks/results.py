"""The outcome of a task as JSON."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter

from forge_proxy.core.tasks.models import TaskResult
from forge_proxy.core.tasks.records import TaskState


@cache
def _adapter() -> TypeAdapter[TaskResult]:
    return TypeAdapter(TaskResult)


def write_outcome(state: TaskState) -> str:
    """Serialize the result of a task that has ended."""
    if state.result is None:
        raise AssertionError("a task that has ended without failing has a result")
    return _adapter().dump_json(state.result).decode()
