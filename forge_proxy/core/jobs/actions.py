"""The next action of a job, as a value. It is stored with the state, so any process can continue the job."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from forge_proxy.core.jobs.errors import JobLimitExceeded, JobNotReadable
from forge_proxy.core.jobs.limits import MAX_CHILDREN
from forge_proxy.core.jobs.records import CLIENT_CONTINUES


@dataclass(frozen=True, slots=True)
class RunPhase:
    """Run a phase of the job's kind. It runs at least once, and what it returns is stored once."""

    phase: str
    queue: str
    """The queue whose concurrency limits it."""
    timeout: float | None = None
    """Seconds; None if the phase bounds itself."""
    heartbeat_timeout: float = 5.0
    """Seconds after which another daemon may take over the phase of one that is silent (Temporal only)."""
    max_attempts: int = 1
    attempt: int = 1
    """The number of this attempt."""
    type: Literal["run_phase"] = field(default="run_phase", kw_only=True)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be created. The id of a child job is chosen by its parent."""

    id: str
    kind: str
    title: str
    state: str
    """The kind's own state, not packed."""
    model: str | None = None
    notify_url: str | None = None


@dataclass(frozen=True, slots=True)
class StartChildren:
    """Create child jobs, and run a phase once all of them have ended."""

    jobs: tuple[NewJob, ...]
    then: RunPhase
    type: Literal["start_children"] = field(default="start_children", kw_only=True)

    def __post_init__(self) -> None:
        """Raise `JobLimitExceeded` for too many jobs, and `ValueError` for none or for equal ids."""
        if len(self.jobs) > MAX_CHILDREN:
            raise JobLimitExceeded(f"{len(self.jobs)} child jobs in one action; {MAX_CHILDREN} are possible")
        if len({job.id for job in self.jobs}) != len(self.jobs) or not self.jobs:
            raise ValueError("expected at least one child job, each with an id of its own")


@dataclass(frozen=True, slots=True)
class AwaitChildren:
    """Wait for the child jobs of a `StartChildren`, as which it is stored once they exist."""

    then: RunPhase
    type: Literal["await_children"] = field(default="await_children", kw_only=True)


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a time (seconds since 1970), or until the job is woken, and then run a phase."""

    until: float | None
    then: RunPhase
    status: Literal["queued", "waiting", "requires_action", "halted"] = "waiting"
    """What the job waits for; `queued` before the next attempt of a phase."""
    type: Literal["wait"] = field(default="wait", kw_only=True)

    @property
    def is_for_client(self) -> bool:
        """Whether a client or a person ends it, unless its time comes: it does not end by a wake."""
        return self.status in CLIENT_CONTINUES


@dataclass(frozen=True, slots=True)
class Finished:
    """The job has ended; its outcome is stored with it."""

    status: Literal["completed", "failed", "cancelled"] = "completed"
    type: Literal["finished"] = field(default="finished", kw_only=True)


NextAction: TypeAlias = RunPhase | StartChildren | Wait | Finished
"""The actions that a phase may return."""
StoredAction: TypeAlias = Annotated[RunPhase | AwaitChildren | Wait | Finished, Field(discriminator="type")]


@cache
def _adapter() -> TypeAdapter[StoredAction]:
    """Build the adapter on first use: most daemons start without a job."""
    return TypeAdapter(StoredAction)


def write_action(action: StoredAction) -> str:
    """Serialize an action."""
    return _adapter().dump_json(action).decode()


def read_action(text: str) -> StoredAction:
    """Parse a stored action. Raises `JobNotReadable`."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        raise JobNotReadable(
            "this job was stored by another version of forge-proxy and cannot be resumed by this version"
        ) from error
