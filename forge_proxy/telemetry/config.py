"""The `log` section of the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LogConfig(BaseModel):
    """The log level and format. Prompts, responses and keys are never logged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: console on a terminal, JSON lines elsewhere."
    )
