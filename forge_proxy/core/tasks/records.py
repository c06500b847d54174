"""The stored state of a task, and what it keeps of its calls and of its failed attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from forge_proxy.core.jobs.errors import JobNotReadable
from forge_proxy.core.tasks.call_record import CallOutcome
from forge_proxy.core.tasks.decisions import Reset
from forge_proxy.core.tasks.findings import Finding, ValidationResult
from forge_proxy.core.tasks.models import CallMethod, CapabilityTier, ForgeTaskInput, ResponseForm, TaskResult
from forge_proxy.core.tasks.operations import OperationName
from forge_proxy.core.tasks.progress import TaskProgress
from forge_proxy.core.tasks.workspace import RepositoryState, Worktree


@dataclass(frozen=True, slots=True)
class TaskCall:
    """One call of a task. The prompt and the response are documents of its job."""

    operation: OperationName
    step: str | None
    attempt: int
    tier: CapabilityTier
    model: str
    form: ResponseForm
    prompt: str
    """The digest of the document."""
    response: str
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    requests: int = 1
    """Requests to the model: an invalid response is retried."""
    match_levels: tuple[str, ...] = ()
    """How the edits of the response were found."""
    outcome: CallOutcome = "responded"
    round: int = 0
    """The number of attempts of all operations that had ended before the call."""
    part: int = 0
    """0, or 1 for the request for edits that had failed."""
    at: float = 0.0
    """When the call ended, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a response is requested of a model."""

    form: ResponseForm
    method: CallMethod
    """`prompt` for blocks."""

    @property
    def has_schema_note(self) -> bool:
        """Whether the prompt contains the schema of the response."""
        return self.form == "json" and self.method == "prompt"


@dataclass(frozen=True, slots=True)
class CallTerms:
    """How a call is made, which stays the same until it has ended."""

    method: CallMethod
    limit: int
    """The largest number of tokens of the first response."""
    window: int | None
    """Tokens of prompt and response together; None if they are not known."""


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """A call whose requests are batches (mode `batch`)."""

    round: int
    part: int
    """`round` and `part` as in `TaskCall`."""
    terms: CallTerms
    batches: tuple[str, ...]
    """The jobs of its requests, in order: an invalid response is retried by a second batch."""
    failed: int = 0
    """Batches that had no response, in place of which others are submitted."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed: part of the report of a halt (D15)."""

    step: str | None
    """The step; of a sub-task also its id: `step/sub-task`."""
    attempt: int
    reason: str
    findings: tuple[Finding, ...] = ()
    diff: str | None = None
    """The digest of the document with the changes of the attempt."""


@dataclass(frozen=True, slots=True)
class ParentLink:
    """Where a sub-task belongs."""

    worktree: Worktree
    """The worktree of the task that has started it, from which it reads its context (D28)."""
    commit: str
    """The commit from which it begins."""
    outline: str = ""
    """The plan around it, as its prompt shows it."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task or of a sub-task."""

    task_id: str
    input: ForgeTaskInput
    repository: RepositoryState
    progress: TaskProgress
    version: Literal[1] = 1
    instructions: str = ""
    """The project instructions of the settings when the task was submitted."""
    has_predecessors_ended: bool = False
    """Whether the tasks after which it runs have ended, or a person has decided to run it anyway."""
    is_admitted: bool = False
    """Whether it has its turn: no other task writes the same files before it waits for a person or ends."""
    waits_for: tuple[str, ...] = ()
    """The tasks for which it waits before it has its turn."""
    then: str = "prepare"
    """The phase with which it continues when it has its turn."""
    worktree: Worktree | None = None
    head: str = ""
    """The latest commit of the task, or the one that it began from."""
    baseline: str | None = None
    """The digest of the document with what the checks found before."""
    reset: Reset = "none"
    """How the current attempt begins."""
    prompt: str | None = None
    """The digest of the prompt of the current attempt."""
    form: ResponseForm = "json"
    method: CallMethod = "prompt"
    tested: CallForm | None = None
    """What a test of the model has found out for the next prompt, which another daemon may assemble."""
    responses: tuple[str, ...] = ()
    """The digests of the responses of the current attempt: the first one, and that to the request for failed edits."""
    batched: BatchedCall | None = None
    """The latest call of a task with the mode `batch` (`current_batched`)."""
    follow_up: tuple[Finding, ...] = ()
    """Edits that failed and are requested again."""
    written: tuple[str, ...] = ()
    """The paths that the current attempt has written."""
    checked: tuple[str, ...] = ()
    """The paths whose content was checked. Only these are committed: checks may leave files behind."""
    results: tuple[ValidationResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings of the current attempt that do not come from checks, such as edits that could not be applied."""
    is_violation: bool = False
    previous: tuple[Finding, ...] = ()
    """Findings of the attempt before, for the prompt."""
    previous_files: str | None = None
    """The digest of the document with the files of the attempt before."""
    notes: tuple[str, ...] = ()
    """What people have written about earlier attempts."""
    children: tuple[str, ...] = ()
    """The jobs of the sub-tasks of the current step, in their order."""
    kept: tuple[str, ...] = ()
    """Those of them whose outputs the next attempt uses again."""
    gathered: str | None = None
    """The digest of the document with the outputs of the sub-tasks (`GatheredOutputs`)."""
    conflicts: tuple[str, ...] = ()
    """The files that sub-tasks have written in different versions."""
    output: str | None = None
    """The digest of the document with the output of a sub-task (`SubTaskOutput`)."""
    calls: tuple[TaskCall, ...] = ()
    failures: tuple[FailedAttempt, ...] = ()
    halt: str = ""
    """Why the task has halted."""
    approver: str = ""
    result: TaskResult | None = None
    parent: ParentLink | None = None
    step_commits: dict[str, str] = field(default_factory=dict[str, str])
    """The commits of the steps, by their ids."""

    @property
    def current_batched(self) -> BatchedCall | None:
        """The current call, if a request of it has become a batch."""
        found, place = self.batched, (self.progress.attempts, len(self.responses))
        return found if found is not None and (found.round, found.part) == place else None

    @property
    def step_id(self) -> str | None:
        """The id of the current step."""
        step = self.progress.current
        return step.id if step is not None else None


@cache
def _adapter() -> TypeAdapter[TaskState]:
    """Build the adapter on first use: most daemons start without a task."""
    return TypeAdapter(TaskState)


def write_task(state: TaskState) -> str:
    """Serialize a state."""
    return _adapter().dump_json(state).decode()


def read_task(text: str) -> TaskState:
    """Parse a state. Raises `JobNotReadable`."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        raise JobNotReadable(
            "this task was stored by another version of forge-proxy and cannot be resumed by this version"
        ) from error
