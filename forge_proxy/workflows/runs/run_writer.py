"""A run as its job's writer sees it: the submission, and the state as a value."""

from __future__ import annotations

import asyncio

from forge_proxy.core.jobs.records import NewEvent
from forge_proxy.core.workflow.run import RunState
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.workflows.runs.serialization import read_state, split_text, write_text
from forge_proxy.workflows.runs.submission import Submission, read_submission


class RunWriter:
    """Writes one run. `state` is as stored."""

    def __init__(self, job_writer: JobWriter) -> None:
        """Raises `RunNotReadable`."""
        self.job_writer = job_writer
        self._submission, state = split_text(job_writer.state)
        self.state = read_state(state)

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.job_writer.job.id

    @property
    def cancel(self) -> asyncio.Event:
        """Set when cancellation is requested."""
        return self.job_writer.cancel

    def submission(self) -> Submission:
        """Return the submission. Raises `RunNotReadable`."""
        return read_submission(self._submission)

    async def write(self, *events: NewEvent, state: RunState | None = None) -> None:
        """Store a step with its events, at least one. Waits while the store is unavailable."""
        text = None if state is None else self.text_of(state)
        await self.job_writer.write(*events, state=text, wait=True)
        self.state = state or self.state

    def stage(self, *events: NewEvent, state: RunState | None = None, outcome: str | None = None) -> None:
        """Keep a change until the phase ends."""
        text = None if state is None else self.text_of(state)
        self.job_writer.stage(*events, state=text, outcome=outcome)

    def text_of(self, state: RunState) -> str:
        """Return what the job stores of a state."""
        return write_text(self._submission, state)
