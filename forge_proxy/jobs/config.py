"""The `jobs` section of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_settings import NoDecode

from forge_proxy.core.background import DailyHours
from forge_proxy.core.validation import split_list
from forge_proxy.jobs.temporal_config import TemporalConfig

QueueName: TypeAlias = Literal["runs", "responses", "tasks", "lines", "checks"]
"""The queues of all kinds of jobs."""

_Limit = Annotated[int, Field(ge=1, le=1000)]


class JobQueuesConfig(BaseModel):
    """How many phases of jobs run at a time, by their queue. Runs have `runs.max_running`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: _Limit | Literal["auto"] = Field(
        default="auto",
        description="Phases of tasks, their calls included. `auto`: the slots of the model server, at least 4.",
    )
    lines: _Limit | Literal["auto"] = Field(
        default="auto",
        description="Lines of batches. `auto`: the slots of the model server, or 16 if it does not report a number.",
    )
    checks: _Limit | Literal["auto"] = Field(
        default="auto", description="Checks of tasks, such as test suites. `auto`: half of the processor's cores."
    )


class JobsConfig(BaseModel):
    """Settings of jobs and of background requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queues: JobQueuesConfig = Field(
        default_factory=JobQueuesConfig, description="How many phases of jobs run at a time, by their queue."
    )
    retention_days: int = Field(
        default=30,
        ge=1,
        le=36500,
        description="Days after which a job that has ended is deleted, with its events, documents and child jobs.",
    )
    reserved_slots: int | None = Field(
        default=None,
        ge=0,
        description="Slots of the model server that background requests leave free while an interactive client is"
        " active. Default: 1 if there are two or more slots.",
    )
    idle_seconds: float = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="Seconds after its latest request for which an interactive client counts as active.",
    )
    hours: str | None = Field(
        default=None,
        description="Local time in which background requests may start, such as `22:00-07:00`. Default: always.",
    )

    scheduler: Literal["local", "temporal"] = Field(
        default="local",
        description="What schedules jobs. local: this daemon, which alone uses the database. temporal: a Temporal"
        " server (extra `temporal`); several daemons then share a PostgreSQL database.",
    )
    temporal: TemporalConfig = Field(default_factory=TemporalConfig)
    serve_queues: Annotated[tuple[QueueName, ...] | None, NoDecode, BeforeValidator(split_list)] = Field(
        default=None,
        description="Queues whose phases this daemon runs, with `jobs.scheduler: temporal`. Default: all.",
    )

    @field_validator("hours")
    @classmethod
    def _check_hours(cls, text: str | None) -> str | None:
        if text is not None:
            DailyHours.parse(text)
        return text

    @property
    def daily_hours(self) -> DailyHours | None:
        """The hours, parsed."""
        return None if self.hours is None else DailyHours.parse(self.hours)
