"""The `files` section of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class FilesConfig(BaseModel):
    """Settings of stored files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    retention_days: int = Field(
        default=30,
        ge=1,
        le=3650,
        description="Days after which a file is deleted whose request had no `expires_after`.",
    )
    max_mb: int = Field(default=200, ge=1, le=10_000, description="Maximum size of a file, in megabytes.")
