"""Records of stored runs: what the job of a run holds, as the API shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.jobs.records import JobHead, StoredJob
from forge_proxy.workflows.runs.errors import RunNotReadable
from forge_proxy.workflows.runs.serialization import split_text

RunStatus: TypeAlias = Literal["queued", "running", "requires_action", "completed", "failed", "cancelled"]
FINISHED: tuple[RunStatus, ...] = ("completed", "failed", "cancelled")
"""Final statuses."""
EventType: TypeAlias = Literal[
    "status", "message", "retry", "compacted", "tool_started", "tool_finished", "iteration", "waiting",
    "cancel_requested",
]  # fmt: skip
"""The types of a run's events."""


@dataclass(frozen=True, slots=True)
class RunHead:
    """The fields of a run in lists. Times are in seconds since 1970."""

    id: str
    status: RunStatus
    workflow: str
    """The workflow's name."""
    model: str | None
    created_at: float
    updated_at: float
    last_event: int = 0
    """The id of the latest event, which also serves as the version for concurrent writes."""
    cancel_requested: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether the run has a final status."""
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class StoredRun(RunHead):
    """A run as stored, without its events. The last three fields are JSON texts."""

    submission: str = ""
    state: str = ""
    outcome: str | None = None
    """The result or the error; None before the run ends."""

    @classmethod
    def of(cls, job: StoredJob, text: str) -> StoredRun:
        """Return the run that a job is; `text` is its own state. Raises `RunNotReadable`."""
        submission, state = split_text(text)
        return cls(*_head_values(job), submission=submission, state=state, outcome=job.outcome)


def to_run_head(job: JobHead) -> RunHead:
    """Return the list fields of the run that a job is."""
    return RunHead(*_head_values(job))


def _head_values(job: JobHead) -> tuple[str, RunStatus, str, str | None, float, float, int, bool]:
    if job.status == "waiting" or job.status == "halted":  # a run waits only for its client
        raise RunNotReadable(f"the run {job.id} is {job.status}, which this version does not know")
    return (
        job.id,
        job.status,
        job.title,
        job.model,
        job.created_at,
        job.updated_at,
        job.last_event,
        job.cancel_requested,
    )
