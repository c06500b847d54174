"""Errors of batches, apart from those of single lines."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from forge_proxy.core.jobs.errors import JobConflict, JobNotFound


class BatchNotFound(JobNotFound):
    """This client has no batch with that id."""

    noun = "batch"


class BatchConflict(JobConflict):
    """The operation is not possible in the batch's present state; nothing was changed."""


class FileInUse(JobConflict):
    """A batch still reads the file."""

    def __init__(self, file_id: str, batch_id: str) -> None:
        super().__init__(f"the batch {batch_id} reads the file {file_id}: cancel the batch first")


@contextmanager
def translate_job_errors(batch_id: str) -> Generator[None]:
    """Raise `BatchNotFound` in place of `JobNotFound`."""
    try:
        yield
    except BatchNotFound:
        raise
    except JobNotFound as error:
        raise BatchNotFound(batch_id) from error
