"""Errors of stored jobs, apart from those raised inside a job."""

from __future__ import annotations

from forge_proxy.core.errors import ForgeError

_MAX_QUOTED = 80
"""Maximum length of an id quoted in a message: it may be anything that a URL can contain."""


class JobNotFound(ForgeError):
    """No job with that id exists, or it was deleted."""

    noun = "job"

    def __init__(self, job_id: str) -> None:
        quoted = job_id if len(job_id) <= _MAX_QUOTED else f"{job_id[:_MAX_QUOTED]}…"
        super().__init__(f"no {self.noun} {quoted!r} here")


class JobConflict(ForgeError):
    """The operation is not possible in the job's present state; nothing was changed."""


class JobIdInUse(ForgeError):
    """A new job has the id of another job."""


class JobNotReadable(ForgeError):
    """A stored job was written by another version and cannot be resumed."""


class JobLimitExceeded(ForgeError):
    """A phase returned an action that exceeds a limit (`core/jobs/limits`): a fault of its kind."""
