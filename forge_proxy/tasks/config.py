"""The `tasks` and `tiers` sections of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import NoDecode

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.tasks.models import MAX_FAN_OUT_DEPTH, CapabilityTier, CheckCommand
from forge_proxy.core.tasks.prompt.sections import PromptOrder
from forge_proxy.core.tasks.scopes import PROTECTED
from forge_proxy.core.validation import split_list


class TierConfig(BaseModel):
    """The model for one tier of calls."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(default=None, min_length=1, description="The model. Default: the daemon's usual one.")
    temperature: float | None = Field(default=None, ge=0, le=2, description="Default: that of the model server.")
    top_p: float | None = Field(default=None, gt=0, le=1, description="Default: that of the model server.")
    seed: int | None = Field(default=None, ge=0, description="Default: none.")
    thinking: bool | None = Field(
        default=None, description="Whether the model may reason first, for templates with `enable_thinking`."
    )
    max_output: int | None = Field(
        default=None,
        ge=64,
        le=1_000_000,
        description="The limit of a response in tokens. Default: a quarter of the window.",
    )
    response_form: Literal["auto", "json", "blocks"] = Field(
        default="auto",
        description="How files are requested: as JSON, or as text in blocks. auto: JSON if the model server limits"
        " responses to a schema, blocks otherwise.",
    )
    method: Literal["auto", "response_format", "tool", "prompt"] = Field(
        default="auto",
        description="How JSON is requested: by `response_format`, as the call of a tool, or in the prompt only. auto:"
        " by what the model server supports.",
    )

    @property
    def sampling(self) -> dict[str, Json]:
        """The sampling parameters that are set, by their names in requests."""
        values = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        return {name: value for name, value in values.items() if value is not None}


class TiersConfig(BaseModel):
    """The models of tasks, by the capability that a call requires. Clients see a tier that is set as a model, such as
    `forge-reasoning`: its model, its sampling and its `thinking` then apply, unless a request has its own values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reasoning: TierConfig = Field(default_factory=TierConfig, description="Plans, and conflicts between sub-tasks.")
    generation: TierConfig = Field(default_factory=TierConfig, description="Code and other content.")
    summarization: TierConfig = Field(default_factory=TierConfig, description="Tasks do not use it yet.")
    classification: TierConfig = Field(default_factory=TierConfig, description="Tasks do not use it yet.")

    def of(self, tier: CapabilityTier) -> TierConfig:
        """Return the settings of a tier."""
        return getattr(self, tier.value)

    def sets(self, tier: CapabilityTier) -> bool:
        """Whether anything is set for a tier."""
        return self.of(tier) != TierConfig()


class TasksConfig(BaseModel):
    """Settings of durable tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repositories: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(split_list)] = Field(
        default=(), description="Repositories in which tasks may work, besides those of `forge-proxy tasks allow`."
    )
    instructions: str = Field(
        default="",
        max_length=100_000,
        description="Instructions for the prompts of all tasks, before those of the repository.",
    )
    prompt_order: PromptOrder = Field(
        default="shared",
        description="The order of the sections of prompts. shared: role and output requirements follow what all"
        " operations of a task have in common, so that more of a prompt is cached. stable: they come first.",
    )
    protected: Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_list)] = Field(
        default=PROTECTED, description="Patterns of paths that no task may write."
    )
    fix: tuple[CheckCommand, ...] = Field(
        default=(), description="Commands that fix what they can in the changed files, in place of ruff."
    )
    checks: tuple[CheckCommand, ...] = Field(default=(), description="Commands that check every repository.")
    max_fan_out_depth: int = Field(
        default=1,
        ge=0,
        le=MAX_FAN_OUT_DEPTH,
        description="How deep the sub-tasks of plans may be nested. 0: plans have no sub-tasks.",
    )
    batch_hours: int = Field(
        default=24,
        ge=1,
        le=168,
        description="Hours within which a call of a task with the mode `batch` has to be answered.",
    )
    sandbox: Literal["bubblewrap", "none"] = Field(
        default="bubblewrap",
        description="How commands that execute code of a repository are isolated. none: not at all; the code of the"
        " model then runs with the rights of the daemon.",
    )
    visible_paths: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(split_list)] = Field(
        default=(),
        description="Further files and folders that commands in the sandbox may read, such as `~/.cargo`. Folders among"
        " them that are in the PATH of the daemon are in theirs, too.",
    )
    memory_mb: int = Field(
        default=4096,
        ge=64,
        le=1_000_000,
        description="The memory that the processes of a command may use, in megabytes.",
    )
