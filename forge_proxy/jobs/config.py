"""The `jobs` section of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from forge_proxy.core.background import DailyHours


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
