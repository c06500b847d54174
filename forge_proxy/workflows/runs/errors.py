"""Errors of stored runs, apart from those raised inside a run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from forge_proxy.core.jobs.errors import JobConflict, JobNotFound, JobNotReadable


class RunNotFound(JobNotFound):
    """No run with that id exists, or it was deleted."""

    noun = "run"


class RunConflict(JobConflict):
    """The operation is not possible in the run's current state; nothing was changed."""


class RunNotReadable(JobNotReadable):
    """A stored run was written by another version and cannot be resumed."""


@contextmanager
def as_run_errors(run_id: str) -> Generator[None]:
    """Raise errors of the job as errors of the run that it is."""
    try:
        yield
    except RunNotFound:
        raise
    except JobNotFound as error:
        raise RunNotFound(run_id) from error
    except JobConflict as error:
        raise RunConflict(str(error)) from error
