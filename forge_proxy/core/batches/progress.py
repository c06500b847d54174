"""What a client sees of a batch while it is processed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.batches.records import BatchState, LineTotals
from forge_proxy.core.jobs.records import JobHead, JobStatus

BatchStatus: TypeAlias = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A batch at a time (seconds since 1970), with the totals of its shards."""

    id: str
    job_status: JobStatus
    state: BatchState
    totals: LineTotals
    now: float

    @classmethod
    def from_job(cls, job: JobHead, state: BatchState, totals: LineTotals, now: float) -> BatchProgress:
        """Return the progress of the batch that this job processes."""
        return cls(job.id, job.status, state, totals, now)

    @property
    def status(self) -> BatchStatus:
        """The status, as OpenAI names it."""
        if self.state.end is not None:
            return self.state.end
        if self.job_status == "cancelled" or self.job_status == "failed":
            return self.job_status
        if self.state.cancelling_at is not None:
            return "cancelling"
        if self.state.in_progress_at is None:
            return "validating"
        return "in_progress" if self.job_status == "waiting" else "finalizing"

    @property
    def seconds(self) -> float | None:
        """Seconds since its first line could be sent, until it ended; None before."""
        if self.state.in_progress_at is None:
            return None
        return max(0.0, (self.state.ended_at or self.now) - self.state.in_progress_at)

    @property
    def lines_per_second(self) -> float | None:
        """Lines that were finished in a second, on average."""
        return self.totals.done / self.seconds if self.seconds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Output tokens in a second, on average."""
        return self.totals.output_tokens / self.seconds if self.seconds else None

    @property
    def remaining_seconds(self) -> float | None:
        """An estimate of the seconds until all lines are finished; None if nothing is known or left."""
        if self.state.ended_at is not None or not self.lines_per_second:
            return None
        return (self.state.total - self.totals.done) / self.lines_per_second
