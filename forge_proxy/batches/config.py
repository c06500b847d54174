"""The `files` and `batches` sections of the configuration."""

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


class BatchesConfig(BaseModel):
    """Settings of batches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="How often a line is sent whose request fails for a reason that may pass. While the model server is"
        " unavailable, a batch waits instead.",
    )
    order_by_prefix: bool = Field(
        default=True,
        description="Whether lines whose prompts begin alike are sent one after another, so that the model server"
        " reuses what it has computed. Without it, the lines of a model are sent in the order of the file.",
    )
