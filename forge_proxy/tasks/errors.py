"""Errors of tasks, apart from those of single attempts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from forge_proxy.core.jobs.errors import JobConflict, JobNotFound


class TaskNotFound(JobNotFound):
    """No task with that id exists, or it was deleted."""

    noun = "task"


class TaskConflict(JobConflict):
    """The operation is not possible in the task's current state; nothing was changed."""


@contextmanager
def as_task_errors(task_id: str) -> Generator[None]:
    """Raise `TaskNotFound` and `TaskConflict` in place of the errors of jobs."""
    try:
        yield
    except (TaskNotFound, TaskConflict):
        raise
    except JobConflict as error:
        raise TaskConflict(str(error)) from error
    except JobNotFound as error:
        raise TaskNotFound(task_id) from error
