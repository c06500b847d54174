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


class JobsConfig(BaseModel):
    """Settings of background work."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
