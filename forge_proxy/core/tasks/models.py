"""The models of tasks, by the names of the architecture that they follow: definition, input, context, response, plan,
result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from forge_proxy.core.tasks.findings import ValidationResult
from forge_proxy.core.tasks.ids import find_id_fault


class CapabilityTier(StrEnum):
    """The capability that a call requires of a model."""

    REASONING = "reasoning"
    GENERATION = "generation"
    SUMMARIZATION = "summarization"
    CLASSIFICATION = "classification"

    @property
    def model_name(self) -> str:
        """The name by which clients request the tier's model."""
        return f"forge-{self.value}"


class TransitionSignal(StrEnum):
    """What the checks of an attempt mean for its task."""

    SUCCESS = "success"
    FAILURE_RETRYABLE = "failure_retryable"
    FAILURE_TERMINAL = "failure_terminal"


TaskDomain: TypeAlias = Literal["code_generation", "research", "code_review", "documentation", "generic"]
CallMode: TypeAlias = Literal["sync", "batch"]
"""How calls are made: as requests, each of which the task waits for, or as lines of batches."""


def _check_id(text: str) -> str:
    if fault := find_id_fault(text):
        raise ValueError(fault)
    return text


_MAX_TITLE = 80
MAX_FAN_OUT_DEPTH = 3
"""How deep sub-tasks can be nested (`core/jobs/limits.MAX_DEPTH`)."""
TaskId = Annotated[str, AfterValidator(_check_id)]
_Paths = Annotated[tuple[str, ...], Field(max_length=500)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckCommand(_Model):
    """A command that checks the files of a repository."""

    name: str = Field(min_length=1, max_length=64, description="The name of the check in reports.")
    run: tuple[str, ...] = Field(min_length=1, description="The program and its arguments.")
    timeout: float = Field(default=300.0, gt=0, le=3600, description="Seconds after which the command is stopped.")


class ValidationConfig(_Model):
    """Which checks a task has to pass."""

    auto_fix: bool = Field(default=True, description="Whether the fixers run before the checks.")
    commands: tuple[CheckCommand, ...] = Field(
        default=(), max_length=20, description="Commands in addition to those of the settings and the repository."
    )
    skip: tuple[str, ...] = Field(default=(), description="Names of checks that are not run.")
    tests: Literal["writable", "protected"] = Field(
        default="writable", description="`protected`: the task may not change test files."
    )


class TaskDefinition(_Model):
    """The work that a task has to do."""

    task_id: TaskId | None = Field(default=None, description="The id; by default one is created.")
    description: str = Field(min_length=1, max_length=100_000, description="What is to be done.")
    target_files: _Paths = Field(default=(), description="The files to change or create, relative to the repository.")
    context_files: _Paths = Field(default=(), description="Further files that the model reads.")
    may_write: _Paths = Field(
        default=(), description="Patterns of further paths that may be written, such as `src/**/*.py`."
    )
    must_not_write: _Paths = Field(default=(), description="Patterns of paths that may not be written.")
    domain: TaskDomain = Field(default="code_generation", description="The kind of work, which selects the prompt.")
    validation: ValidationConfig = Field(default_factory=ValidationConfig, description="The checks.")


class ForgeTaskInput(_Model):
    """A task, and how it is executed."""

    task: TaskDefinition
    repository: str = Field(min_length=1, max_length=4096, description="The absolute path of an allowed repository.")
    base: str | None = Field(default=None, max_length=200, description="The base branch. Default: the current one.")
    plan: bool = Field(default=False, description="Whether a plan with several steps is made first.")
    after: tuple[TaskId, ...] = Field(
        default=(), max_length=20, description="Tasks that have to be merged before this one begins."
    )
    mode: CallMode = Field(
        default="sync",
        description="sync: the task sends each call and waits for its response. batch: each call is a batch of one"
        " line with the same body, and meanwhile the task takes no place in the queue of tasks.",
    )
    max_attempts: int = Field(default=2, ge=1, le=5, description="Attempts of each step.")
    max_fan_out_depth: int | None = Field(
        default=None,
        ge=0,
        le=MAX_FAN_OUT_DEPTH,
        description="How deep the sub-tasks of a plan may be nested; 0: there are none."
        " Default and maximum: tasks.max_fan_out_depth.",
    )
    conflicts: Literal["resolve", "fail"] = Field(
        default="resolve",
        description="What happens if sub-tasks write different versions of a file. resolve: a model writes one version;"
        " fail: the task halts.",
    )
    models: Mapping[CapabilityTier, str] = Field(
        default_factory=dict[CapabilityTier, str], description="Models in place of those of the settings, by tier."
    )


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """The prompt of one call: a complete document."""

    system_prompt: str
    user_prompt: str
    sections: tuple[str, ...]
    """The names of the sections that are not empty, in order."""
    tokens: int
    """Tokens of both prompts, estimated if the server does not count."""


class NewFile(_Model):
    """A file that is created, or replaced as a whole."""

    path: str
    content: str


class SearchReplace(_Model):
    """One edit: a text of the file, and what replaces it."""

    search: str
    replace: str


class FileEdits(_Model):
    """Edits of one existing file, applied in order."""

    path: str
    edits: tuple[SearchReplace, ...]


class LLMResponse(_Model):
    """What a model returns for a generation. A path is in `files` or in `edits`, but not in both."""

    explanation: str
    files: tuple[NewFile, ...] = ()
    edits: tuple[FileEdits, ...] = ()


ResponseForm: TypeAlias = Literal["json", "blocks"]
CallMethod: TypeAlias = Literal["response_format", "tool", "prompt"]
"""How JSON is requested: limited by the schema, as the call of a tool, or only by the prompt."""


@dataclass(frozen=True, slots=True)
class LLMCallResult:
    """The response to one call, with its costs. The text is a document of the task's job."""

    text: str
    tier: CapabilityTier
    model: str
    form: ResponseForm
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    was_truncated: bool = False


class SubTask(_Model):
    """A part of a step that runs at the same time as the others, in a worktree of its own."""

    id: TaskId
    description: str = Field(min_length=1)
    target_files: _Paths = ()
    context_files: _Paths = ()
    sub_tasks: tuple[SubTask, ...] = ()


class PlanStep(_Model):
    """One step of a plan, which ends in one commit.

    Its targets that are targets of none of its sub-tasks may be written by all of them.
    """

    id: TaskId
    description: str = Field(min_length=1)
    target_files: _Paths = ()
    context_files: _Paths = ()
    may_write: _Paths = ()
    must_not_write: _Paths = ()
    capability_tier: CapabilityTier | None = None
    sub_tasks: tuple[SubTask, ...] = ()
    max_fan_out_depth: int | None = Field(default=None, ge=0, le=MAX_FAN_OUT_DEPTH)
    """How deep its sub-tasks may be nested; by default, as deep as those of the plan."""


class Plan(_Model):
    """The steps of a task, in order."""

    explanation: str
    steps: Annotated[tuple[PlanStep, ...], Field(min_length=1, max_length=50)]
    max_fan_out_depth: int | None = Field(default=None, ge=0, le=MAX_FAN_OUT_DEPTH)
    """For steps that do not specify their own."""


TaskStatus: TypeAlias = Literal["awaiting_merge", "merged", "rejected", "completed", "halted", "failed", "cancelled"]
"""`completed`: a sub-task, whose parent takes over what it has written."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task has produced: the branch for a merge, and a digest for a parent."""

    status: TaskStatus
    digest: str
    branch: str | None = None
    base_commit: str | None = None
    head: str | None = None
    output_files: tuple[str, ...] = ()
    validation_results: tuple[ValidationResult, ...] = ()
    attempts: int = 0
    calls: int = 0
    """With those of its sub-tasks, as the tokens."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    stats: Mapping[str, float] = field(default_factory=dict[str, float])


def title_of(description: str) -> str:
    """Return the title of the job for a description: its beginning, on one line."""
    return " ".join(description.split())[:_MAX_TITLE]
