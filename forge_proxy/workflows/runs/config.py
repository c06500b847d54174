"""The `runs` section of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RunsConfig(BaseModel):
    """Settings of stored runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_running: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Maximum number of runs executed concurrently; others are queued. Runs wait for the model server's"
        " slots like requests.",
    )
