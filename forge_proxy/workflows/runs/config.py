"""The `runs` section of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RunsConfig(BaseModel):
    """How many runs are driven at a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_running: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="How many runs are driven at a time; others are queued. For the model server's slots they wait in"
        " line like requests.",
    )
